"""The loop that writes one batch: each context prefilled once, finished rows dropped, the cache written in place."""

import inspect
from typing import TYPE_CHECKING, Any

from tasks.policy.cache import growing_cache
from tasks.policy.rows import Rows

if TYPE_CHECKING:
    from torch import Tensor

KEPT = 0.75  # rows are dropped when no more than this share is open: to move the cache costs more than a few idle rows


def decode(model: Any, rows: Rows) -> None:
    """Write `rows` to their ends with a transformers model, through its forward and its cache."""
    import torch

    with torch.inference_mode():
        _Decoding(model, rows).run()


class _Decoding:
    """The state of one batch: B live rows of the R that it began with, and what the model knows of them."""

    def __init__(self, model: Any, rows: Rows) -> None:
        """Prefill: each distinct context once, then a row for each request."""
        import torch

        self.model, self.rows = model, rows
        self.accepted = inspect.signature(model.forward).parameters
        contexts = list(dict.fromkeys(r.context for r in rows.requests))
        place = {context: i for i, context in enumerate(contexts)}
        owner = torch.tensor([place[r.context] for r in rows.requests], device=rows.device)
        self.width = max(len(c) for c in contexts)
        ids = torch.tensor([[0] * (self.width - len(c)) + list(c) for c in contexts], device=rows.device)
        real = torch.tensor([len(c) for c in contexts], device=rows.device)
        self.live = torch.arange(len(rows.requests), device=rows.device)
        self.padded = min(len(c) for c in contexts) < self.width
        if self.padded:
            slots = torch.arange(self.width + rows.steps, device=rows.device)
            attention = (slots >= self.width - real[:, None]).long()  # [contexts, S]
            self.attention, self.real = attention[owner], real[owner]
            positions = attention[:, : self.width].cumsum(-1) - 1
            padding = self._accepted(attention_mask=attention[:, : self.width], position_ids=positions.clamp_(min=0))
        else:
            padding = {}
        self.cache = growing_cache(model.config)
        self.logits = self._forward(ids, **padding, **self._accepted(logits_to_keep=1))[owner]  # [B, V]
        if self.cache.get_seq_length() != self.width:
            raise ValueError("its forward pass does not fill the cache")
        self.cache.batch_select_indices(owner)

    def run(self) -> None:
        step = 0
        while True:
            chosen = self.rows.write(self.logits, self.live, step)
            count = int(self.rows.open.sum())  # the only wait for the device in a step
            if not count:
                return
            if count <= KEPT * len(self.live):
                chosen = self._drop(chosen)
            step += 1
            padding = {}
            if self.padded:
                seen = self.attention[:, : self.width + step]
                padding = self._accepted(attention_mask=seen, position_ids=self.real[:, None] + step - 1)
            self.logits = self._forward(chosen[:, None], **padding)

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
        self.live = self.live[kept]
        if self.padded:
            self.attention, self.real = self.attention[kept], self.real[kept]
        self.cache.batch_select_indices(kept)
        return chosen[kept]
