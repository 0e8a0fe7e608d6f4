"""The loop that writes one batch: each context prefilled once, finished rows dropped, the cache written in place."""

import inspect
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tasks.policy.cache import growing_cache, is_plain
from tasks.policy.rows import Rows
from tasks.policy.shared_prefix import SharedPrefix, shared_attention

if TYPE_CHECKING:
    from torch import Tensor

KEPT = 0.75  # rows are dropped when no more than this share is open: to move the cache costs more than a few idle rows


def decode(model: Any, rows: Rows, share: bool = True) -> None:
    """Write `rows` to their ends with a transformers model, through its forward and its cache.

    With `share`, rows of one context attend to one copy of it where the model's attention can be told to.
    """
    import torch

    with torch.inference_mode(), ExitStack() as stack:
        decoding = _Decoding(model, rows, share)
        if decoding.prefix:
            stack.enter_context(shared_attention(model))
        decoding.run()


class _Decoding:
    """The state of one batch: B live rows of the R that it began with, and what the model knows of them."""

    def __init__(self, model: Any, rows: Rows, share: bool) -> None:
        """Prefill each distinct context once."""
        import torch

        self.model, self.rows = model, rows
        self.accepted = inspect.signature(model.forward).parameters
        contexts = list(dict.fromkeys(r.context for r in rows.requests))
        place = {context: i for i, context in enumerate(contexts)}
        owner = torch.tensor([place[r.context] for r in rows.requests], device=rows.device)  # [B]
        self.width = max(len(c) for c in contexts)
        ids = torch.tensor([[0] * (self.width - len(c)) + list(c) for c in contexts], device=rows.device)
        real = torch.tensor([len(c) for c in contexts], device=rows.device)
        slots = torch.arange(self.width + rows.steps, device=rows.device)
        attention = (slots >= self.width - real[:, None]).long()  # [contexts, S] 0 = padding
        self.padded = min(len(c) for c in contexts) < self.width
        padding = {}
        if self.padded:
            positions = (attention[:, : self.width].cumsum(-1) - 1).clamp_(min=0)
            padding = self._accepted(attention_mask=attention[:, : self.width], position_ids=positions)
        self.cache = growing_cache(model.config)
        self.logits = self._forward(ids, **padding, **self._accepted(logits_to_keep=1))[owner]  # [B, V]
        if self.cache.get_seq_length() != self.width:
            raise ValueError("its forward pass does not fill the cache")
        self.live = torch.arange(len(rows.requests), device=rows.device)
        self.attention, self.real = attention[owner], real[owner]
        self.prefix: SharedPrefix | None = None
        if share and self._can_share(owner):
            hidden = attention[:, : self.width] == 0
            self.prefix = SharedPrefix(self.cache, hidden if self.padded else None, owner)
            self.cache = growing_cache(model.config)
        else:
            self.cache.batch_select_indices(owner)

    def _can_share(self, owner: "Tensor") -> bool:
        """Whether the model's attention can be told to, and groups are large enough and even enough to gain by it."""
        sizes = owner.bincount()
        pays = 2 * len(sizes) <= len(owner) and len(sizes) * int(sizes.max()) <= 2 * len(owner)
        usual = getattr(self.model.config, "_attn_implementation", None) == "sdpa"
        return pays and usual and "position_ids" in self.accepted and is_plain(self.cache)

    def run(self) -> None:
        step = 0
        while True:
            chosen = self.rows.write(self.logits, self.live, step)
            count = int(self.rows.open.sum())  # the only wait for the device in a step
            if not count:
                return
            if count <= KEPT * len(self.live):
                chosen = self._drop(chosen)
            self.logits = self._forward(chosen[:, None], **self._place_of(step))
            step += 1

    def _place_of(self, step: int) -> dict[str, Any]:
        """What the model must be told of tokens that stand `step` after the context."""
        positions = self.real[:, None] + step
        if self.prefix:
            return {"position_ids": positions, "shared_prefix": self.prefix}
        if self.padded:
            return self._accepted(attention_mask=self.attention[:, : self.width + step + 1], position_ids=positions)
        return {}

    def _forward(self, ids: "Tensor", **inputs: Any) -> "Tensor":
        """Logits of the last position [B, V]."""
        logits: Tensor = self.model(input_ids=ids, past_key_values=self.cache, use_cache=True, **inputs).logits
        return logits[:, -1]

    def _accepted(self, **inputs: Any) -> dict[str, Any]:
        """Those inputs that the model names: some models find positions by themselves, some give all logits."""
        return {name: value for name, value in inputs.items() if name in self.accepted}

    def _drop(self, chosen: "Tensor") -> "Tensor":
        """Keep the rows that are open, and of what was chosen theirs."""
        kept = self.rows.open[self.live].nonzero()[:, 0]
        self.live, self.attention, self.real = self.live[kept], self.attention[kept], self.real[kept]
        self.cache.batch_select_indices(kept)
        if self.prefix:
            self.prefix.keep(kept)
        return chosen[kept]
