"""The decoding loop of one batch: each context prefilled once, finished rows dropped, the cache written in place.

What all contexts begin with, worked examples for instance, is prefilled once for all of them.
"""

import inspect
from typing import Any, Protocol

import torch
from torch import Tensor

from tasks.model.decoding.batch_state import BatchState
from tasks.model.decoding.equal_rows import EqualRows
from tasks.model.decoding.growing_cache import (
    Prefix,
    RowPrefix,
    SharedPrefix,
    common_prefix,
    growing_cache,
    keeps_all_tokens,
    use_prefix_attention,
)
from tasks.model.hf_model import cache_argument
from tasks.model.layers.fast_layers import fast_layers

LIVE_SHARE = 0.75  # rows are dropped when at most this share is unfinished: moving the cache costs more than a few rows
MAX_COPIED = 1024  # tokens of the live rows' contexts up to which a copy per row is faster than sharing them


class DecoderForward(Protocol):
    """How a model's logits are computed in the loop: with its own forward pass, or on blocks written out."""

    supports_prefix: bool
    joins_rows: bool

    def prefill(self, ids: Tensor, seen: Tensor | None, positions: Tensor | None, cache: Any) -> Tensor:
        """Logits [C, V] after the next P tokens of contexts, which are put into the cache after the T that it has.

        `seen` [C, T + P] True = a token, None if T is 0 and there is no padding; `positions` [C, P].
        """

    def decode(self, ids: Tensor, positions: Tensor, cache: Any, prefix: Any, distinct: Any, /) -> Tensor:
        """Logits after one more token [B] of each row, at positions [B]; it is put into the cache. Of all rows [B, V]
        or, where it `joins_rows`, of the `distinct` ones [D, V]."""


class HfForward:
    """Any model that takes `input_ids` and a cache of keys and values."""

    joins_rows = False  # attention, which rows have of their own, is inside of the model's forward

    def __init__(self, model: Any) -> None:
        self._model, self._parameters = model, inspect.signature(model.forward).parameters
        self._cache = cache_argument(model)
        is_sdpa = getattr(model.config, "_attn_implementation", None) == "sdpa"
        can_hook = is_sdpa and getattr(model, "_supports_attention_backend", False)
        self.supports_prefix = can_hook and "position_ids" in self._parameters

    def prefill(self, ids: Tensor, seen: Tensor | None, positions: Tensor | None, cache: Any) -> Tensor:
        return self._run(ids, cache, **self._masked(seen, positions), **self._accepted(logits_to_keep=1))

    def decode(self, ids: Tensor, positions: Tensor, cache: Any, prefix: Any, *_distinct: Any) -> Tensor:
        with use_prefix_attention(self._model):
            return self._run(ids[:, None], cache, position_ids=positions[:, None], row_prefix=prefix)

    def decode_masked(self, ids: Tensor, positions: Tensor, cache: Any, seen: Tensor | None) -> Tensor:
        """The same with the model's own attention over the whole cache, masked by `seen` [B, S]."""
        return self._run(ids[:, None], cache, **self._masked(seen, positions[:, None]))

    def _run(self, ids: Tensor, cache: Any, **inputs: Any) -> Tensor:
        logits: Tensor = self._model(input_ids=ids, use_cache=True, **{self._cache: cache}, **inputs).logits
        return logits[:, -1]

    def _masked(self, seen: Tensor | None, positions: Tensor | None) -> dict[str, Any]:
        """Mask and positions; nothing where there is no padding."""
        return {} if seen is None else self._accepted(attention_mask=seen.long(), position_ids=positions)

    def _accepted(self, **inputs: Any) -> dict[str, Any]:
        """Those that the model accepts: some compute positions themselves, some give all logits."""
        return {name: value for name, value in inputs.items() if name in self._parameters}


def decode(model: Any, state: BatchState, max_copied: int = MAX_COPIED) -> None:
    """Complete a batch with a transformers model, through its forward and its cache.

    Where its attention can be replaced, no masks are made, and rows of one context attend to one copy of it while
    their contexts have more than `max_copied` tokens.
    """
    with fast_layers(model), torch.inference_mode():
        DecodeLoop(model.config, HfForward(model), state, max_copied).run()


class Contexts:
    """The C distinct contexts of R requests, each of them prefilled once."""

    def __init__(self, config: Any, forward: DecoderForward, state: BatchState) -> None:
        """Prefill their common beginning, then the rest of each, padded on the left."""
        contexts = list(dict.fromkeys(r.context for r in state.requests))
        place = {context: i for i, context in enumerate(contexts)}
        self._forward = forward
        self.owner = torch.tensor([place[r.context] for r in state.requests], device=state.device)  # [R]
        self.width = max(len(c) for c in contexts)  # P
        self.cache = growing_cache(config)
        common = common_prefix(contexts) if keeps_all_tokens(self.cache) else 0
        rows = [[*c[:common], *[0] * (self.width - len(c)), *c[common:]] for c in contexts]
        ids = torch.tensor(rows, device=state.device)
        real = torch.tensor([len(c) for c in contexts], device=state.device)
        slots = torch.arange(self.width + state.steps, device=state.device)
        seen = (slots < common) | (slots >= common + self.width - real[:, None])  # [C, P + steps] False = padding
        self.padded = min(len(c) for c in contexts) < self.width
        self.padding = ~seen[:, : self.width] if self.padded else None  # [C, P]
        self.logits = self._prefill(ids, seen[:, : self.width], common)  # [C, V]
        if self.cache.get_seq_length() != self.width:
            raise ValueError("its forward pass does not fill the cache")
        self.seen, self.real = seen[self.owner], real[self.owner]  # [R, P + steps], [R]

    def _prefill(self, ids: Tensor, seen: Tensor, common: int) -> Tensor:
        """Logits [C, V] after contexts [C, P], whose first `common` tokens are the same."""
        if common:  # prefilled for one row, then copied to all: padding lies between it and the rest of a context
            self._forward.prefill(ids[:1, :common], None, None, self.cache)
            self.cache.batch_select_indices(ids.new_zeros(len(ids)))
        positions = (seen.cumsum(-1) - 1).clamp_(min=0)[:, common:]
        if not self.padded and not common:
            return self._forward.prefill(ids, None, None, self.cache)
        return self._forward.prefill(ids[:, common:], seen, positions, self.cache)


class DecodeLoop:
    """B live rows of the R in the batch, and their cache."""

    def __init__(self, config: Any, forward: DecoderForward, state: BatchState, max_copied: int) -> None:
        self.config, self.forward, self.state, self.max_copied = config, forward, state, max_copied
        contexts = Contexts(config, forward, state)
        self.width, self.cache, self.padded = contexts.width, contexts.cache, contexts.padded
        self.logits, self.seen, self.real = contexts.logits, contexts.seen, contexts.real
        self.places: Tensor | None = contexts.owner  # of each row's logits; None: row by row
        self.live = torch.arange(len(state.requests), device=state.device)
        self.prefix = self._make_prefix(contexts.owner, contexts.padding)
        self.equal = EqualRows(contexts.owner) if forward.joins_rows else None

    def _make_prefix(self, owner: Tensor, padding: Tensor | None) -> Prefix | None:
        """How the rows [B] attend to the prefilled contexts; None: with the model's own attention."""
        supported = self.forward.supports_prefix and keeps_all_tokens(self.cache)
        if supported and _worth_sharing(owner) and not self._is_small():
            prefix = SharedPrefix(self.cache, padding, owner)
            self.cache = growing_cache(self.config)
            return prefix
        self.cache.batch_select_indices(owner)  # a copy of its context for each row
        return RowPrefix(None if padding is None else padding[owner], self.state.steps) if supported else None

    def _is_small(self) -> bool:
        return len(self.live) * self.width <= self.max_copied

    def run(self) -> None:
        step = 0
        while True:
            tokens = self.state.append(self.logits, self.live, step, self.places)
            count = int(self.state.unfinished.sum())  # the only synchronisation with the device in a step
            self.state.report(len(self.state.requests) - count)
            if not count:
                return
            if count <= LIVE_SHARE * len(self.live):
                tokens = self._drop_finished(tokens)
            self.logits = self._step(tokens, step)
            step += 1

    def _step(self, tokens: Tensor, step: int) -> Tensor:
        """Logits at `places` after tokens [B] at `step` after the context."""
        positions = self.real + step
        distinct = self.equal.append(tokens, self.state.unfinished[self.live]) if self.equal else None
        self.places = distinct.places if distinct else None
        if self.prefix:
            return self.forward.decode(tokens, positions, self.cache, self.prefix, distinct)
        assert isinstance(self.forward, HfForward)
        seen = self.seen[:, : self.width + step + 1] if self.padded else None
        return self.forward.decode_masked(tokens, positions, self.cache, seen)

    def _drop_finished(self, tokens: Tensor) -> Tensor:
        """Keep the unfinished rows; returns their tokens."""
        kept = self.state.unfinished[self.live].nonzero()[:, 0]
        self.live, self.seen, self.real = self.live[kept], self.seen[kept], self.real[kept]
        self.cache.batch_select_indices(kept)
        if self.equal:
            self.equal.keep(kept)
        if self.prefix:
            self.prefix.keep(kept)
        if isinstance(self.prefix, SharedPrefix) and self._is_small():
            written, self.cache = self.cache, growing_cache(self.config)
            self.prefix = self.prefix.copy_to_rows(written, self.cache, self.state.steps)
        return tokens[kept]


def _worth_sharing(owner: Tensor) -> bool:
    """Whether the groups of rows [B] with one context are large and even enough for shared attention to be faster."""
    sizes = owner.bincount()
    return 2 * len(sizes) <= len(owner) and len(sizes) * int(sizes.max()) <= 2 * len(owner)
