"""The loop that writes one batch: each context prefilled once, finished rows dropped, the cache written in place."""

from typing import TYPE_CHECKING, Any

from tasks.model.sampling.batch_state import Rows
from tasks.model.sampling.hf_forward import PlainForward
from tasks.model.sampling.kv_cache import growing_cache, is_plain
from tasks.model.sampling.llama_blocks import Blocks
from tasks.model.sampling.prefix_attention import OwnPrefix, Prefix, SharedPrefix

if TYPE_CHECKING:
    from torch import Tensor

KEPT = 0.75  # rows are dropped when no more than this share is open: to move the cache costs more than a few idle rows
FEW = 1024  # tokens of the live rows' contexts, up to which a copy for each row is faster than to share them


def decode(model: Any, rows: Rows, told: bool = True, few: int = FEW) -> None:
    """Write `rows` to their ends with a transformers model, through its forward and its cache.

    With `told`, its attention is told what to do where it can be: no masks are made, and rows of one context attend to
    one copy of it while their contexts are more than `few` tokens.
    """
    _decode(model, PlainForward(model, told), rows, few)


def decode_blocks(model: Any, rows: Rows, few: int = FEW) -> None:
    """`decode` with a model that `Blocks` know."""
    import torch

    with torch.inference_mode():
        blocks = Blocks(model, max(len(r.context) for r in rows.requests) + rows.steps)
    _decode(model, blocks, rows, few)


def _decode(model: Any, forward: PlainForward | Blocks, rows: Rows, few: int) -> None:
    import torch

    with torch.inference_mode():
        _Decoding(model.config, forward, rows, few).run()


class _Decoding:
    """The state of one batch: B live rows of the R that it began with, and what the model knows of them."""

    def __init__(self, config: Any, forward: PlainForward | Blocks, rows: Rows, few: int) -> None:
        """Prefill each distinct context once."""
        import torch

        self.config, self.forward, self.rows, self.few = config, forward, rows, few
        contexts = list(dict.fromkeys(r.context for r in rows.requests))
        place = {context: i for i, context in enumerate(contexts)}
        owner = torch.tensor([place[r.context] for r in rows.requests], device=rows.device)  # [B]
        self.width = max(len(c) for c in contexts)
        ids = torch.tensor([[0] * (self.width - len(c)) + list(c) for c in contexts], device=rows.device)
        real = torch.tensor([len(c) for c in contexts], device=rows.device)
        slots = torch.arange(self.width + rows.steps, device=rows.device)
        seen = slots >= self.width - real[:, None]  # [C, S] False = padding
        self.padded = min(len(c) for c in contexts) < self.width
        self.cache = growing_cache(config)
        self.logits = self._read(ids, seen[:, : self.width])[owner]  # [B, V]
        if self.cache.get_seq_length() != self.width:
            raise ValueError("its forward pass does not fill the cache")
        self.live = torch.arange(len(rows.requests), device=rows.device)
        self.seen, self.real = seen[owner], real[owner]
        self.prefix = self._prefix(owner, ~seen[:, : self.width] if self.padded else None)

    def _read(self, ids: "Tensor", seen: "Tensor") -> "Tensor":
        if not self.padded:
            return self.forward.read(ids, None, None, self.cache)
        return self.forward.read(ids, seen, (seen.cumsum(-1) - 1).clamp_(min=0), self.cache)

    def _prefix(self, owner: "Tensor", padding: "Tensor | None") -> Prefix | None:
        """The prefilled contexts, as the rows [B] are to attend to them; None: as the model does it by itself."""
        told = self.forward.can_be_told and is_plain(self.cache)
        if told and _is_shared(owner) and not self._has_few():
            prefix = SharedPrefix(self.cache, padding, owner)
            self.cache = growing_cache(self.config)
            return prefix
        self.cache.batch_select_indices(owner)
        return OwnPrefix(None if padding is None else padding[owner], self.rows.steps) if told else None

    def _has_few(self) -> bool:
        return len(self.live) * self.width <= self.few

    def run(self) -> None:
        step = 0
        while True:
            chosen = self.rows.write(self.logits, self.live, step)
            count = int(self.rows.open.sum())  # the only wait for the device in a step
            if not count:
                return
            if count <= KEPT * len(self.live):
                chosen = self._drop(chosen)
            self.logits = self._follow(chosen, step)
            step += 1

    def _follow(self, chosen: "Tensor", step: int) -> "Tensor":
        """Logits [B, V] after tokens [B] that stand `step` after the context."""
        positions = self.real + step
        if self.prefix:
            return self.forward.follow(chosen, positions, self.cache, self.prefix)
        assert isinstance(self.forward, PlainForward)
        seen = self.seen[:, : self.width + step + 1] if self.padded else None
        return self.forward.follow_masked(chosen, positions, self.cache, seen)

    def _drop(self, chosen: "Tensor") -> "Tensor":
        """Keep the rows that are open, and of what was chosen theirs."""
        kept = self.rows.open[self.live].nonzero()[:, 0]
        self.live, self.seen, self.real = self.live[kept], self.seen[kept], self.real[kept]
        self.cache.batch_select_indices(kept)
        if self.prefix:
            self.prefix.keep(kept)
        if isinstance(self.prefix, SharedPrefix) and self._has_few():
            own, self.cache = self.cache, growing_cache(self.config)
            self.prefix = self.prefix.give_out(own, self.cache, self.rows.steps)
        return chosen[kept]


def _is_shared(owner: "Tensor") -> bool:
    """Whether groups of rows [B] with one context are large enough and even enough to gain by attending together."""
    sizes = owner.bincount()
    return 2 * len(sizes) <= len(owner) and len(sizes) * int(sizes.max()) <= 2 * len(owner)
