"""A key-value cache that grows in place, and the attention of rows to it and to contexts that they share.

transformers' own cache concatenates: its n-th token copies the n - 1 before it, in each layer.

A context that several rows share is held once and read once a step: its rows are the rows of one matrix product with
it, while each row attends to its own tokens separately (Juravsky et al. 2024, Hydragen, arXiv:2402.05099). Where
contexts are short, or not shared, each row has its own copy: a third of the operations. It enters a model through
transformers' attention interface.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from copy import copy
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers.cache_utils import DynamicCache, DynamicLayer

from tasks.model.hf_model import use_attention

CHUNK = 64  # tokens by which it grows: reserving the full budget would hold memory that most rows never use

FEWEST_QUERIES = 3
"""Queries in a product with a context from which on a CPU adds in one order, however many they are."""

MIN_PREFIX = 32
"""Tokens from which on a common beginning of prompts is computed once."""


def growing_cache(config: Any) -> Any:
    """transformers' cache for this model, with layers that are written in place where they keep all tokens."""
    new = DynamicCache(config=config)
    # The exact type: its subclasses, of sliding windows for instance, drop tokens and are left as they are.
    new.layers = [GrowingLayer() if type(layer) is DynamicLayer else layer for layer in new.layers]
    return new


def keeps_all_tokens(growing: Any) -> bool:
    """Whether each layer keeps all keys and values: no sliding window, no recurrent state."""
    return all(type(layer) is GrowingLayer for layer in growing.layers)


class GrowingLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values [B, heads, S, d] are views of the used part of larger buffers."""

    def update(self, key_states: Tensor, value_states: Tensor, *_args: Any, **_kwargs: Any) -> tuple[Tensor, Tensor]:
        used = self.get_seq_length()
        if not used:
            self.dtype, self.device, self.is_initialized = key_states.dtype, key_states.device, True
            self._buffers = (key_states[:, :, :0], value_states[:, :, :0])  # empty, of the right type: it grows below
        length = used + key_states.shape[-2]
        if length > self._buffers[0].shape[-2]:
            self._move(slice(None), used, length + CHUNK)
        for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, used:length] = new
        return self._set_views(length)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep these rows; a row that is named twice is there twice."""
        if used := self.get_seq_length():
            self._move(indices, used, self._buffers[0].shape[-2])
            self._set_views(used)

    def _move(self, rows: Any, used: int, room: int) -> None:
        """Copy these rows into new buffers with room for `room` tokens."""
        keys, values = self._buffers
        self._buffers = (_with_room(keys[:, :, :used][rows], room), _with_room(values[:, :, :used][rows], room))

    def _set_views(self, length: int) -> tuple[Tensor, Tensor]:
        self.keys, self.values = (buffer[:, :, :length] for buffer in self._buffers)
        return self.keys, self.values


def _with_room(states: Tensor, room: int) -> Tensor:
    # What is after the states is never read: keys and values are views that end with the last token.
    buffer = states.new_empty(*states.shape[:2], room, states.shape[-1])
    buffer[:, :, : states.shape[-2]] = states
    return buffer


def common_prefix(prompts: Sequence[Sequence[int]]) -> int:
    """Tokens that all prompts begin with, before the last of each; 0 where they are fewer than MIN_PREFIX."""
    if len(prompts) < 2:
        return 0
    first, last = min(map(tuple, prompts)), max(map(tuple, prompts))
    room = min(map(len, prompts)) - 1
    common = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), room)
    return min(common, room) if min(common, room) >= MIN_PREFIX else 0


class RowPrefix:
    """Each row's context is in the cache, before its own tokens."""

    def __init__(self, padding: Tensor | None, steps: int) -> None:
        """`padding` [B, P] True = padding, None if there is none; at most `steps` tokens follow."""
        self._seen = None if padding is None else pad(~padding, (0, steps), value=True)[:, None, None]

    def keep(self, rows: Tensor) -> None:
        """Drop all other rows."""
        self._seen = None if self._seen is None else self._seen[rows]

    def attend(self, _layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attention of scaled queries [B, heads, n, d] to keys and values [B, heads, P + t, d]."""
        seen = None if self._seen is None else self._seen[..., : keys.shape[2]]
        return scaled_dot_product_attention(queries, keys, values, seen, scale=1.0)


class SharedPrefix:
    """The C prefilled contexts of a batch, and the context of each of its B rows."""

    def __init__(self, cache: Any, padding: Tensor | None, owner: Tensor) -> None:
        """`padding` [C, P] True = padding, None if there is none; `owner` [B] is each row's context."""
        self._layers = [(layer.keys, layer.values) for layer in cache.layers]  # [C, heads, P, d]
        self._padding, self._owner = padding, owner
        self._group()

    def keep(self, rows: Tensor) -> None:
        """Drop all other rows, and contexts without a row."""
        used, self._owner = torch.unique(self._owner[rows], return_inverse=True)
        if len(used) < len(self._layers[0][0]):  # C
            self._layers = [(keys[used], values[used]) for keys, values in self._layers]
            self._padding = None if self._padding is None else self._padding[used]
        self._group()

    def at(self, rows: Tensor, queries: int) -> "SharedPrefix | None":
        """The contexts for these rows alone, with `queries` each for a head of keys; None: too few for one context."""
        part = copy(self)
        part._owner = self._owner[rows]
        part._group()
        return part if part._width * queries >= FEWEST_QUERIES else None

    def copy_to_rows(self, written_cache: Any, into: Any, steps: int) -> RowPrefix:
        """Put each row's context, and then the row's own tokens from `written_cache`, into a new cache."""
        for (keys, values), written, layer in zip(self._layers, written_cache.layers, into.layers, strict=True):
            layer.update(keys[self._owner], values[self._owner])
            if written.is_initialized:
                layer.update(written.keys, written.values)
        return RowPrefix(None if self._padding is None else self._padding[self._owner], steps)

    def _group(self) -> None:
        """Each row's place among C groups of G places, and the row in each place (in a free one: the first)."""
        # bmm takes groups of one size: rows are sorted by context, and a context with fewer rows than the largest has
        # free places, which compute its first row again and are never read.
        contexts = len(self._layers[0][0])
        sizes = self._owner.bincount(minlength=contexts)
        order = self._owner.argsort(stable=True)
        rows = torch.arange(len(order), device=order.device)
        nth = rows - (sizes.cumsum(0) - sizes)[self._owner[order]]
        self._width = width = int(sizes.max())
        heads = torch.arange(self._layers[0][0].shape[1], device=order.device)
        places = torch.empty_like(order)  # of a row's first head
        places[order] = self._owner[order] * len(heads) * width + nth
        self._places = (places[:, None] + heads * width).flatten()  # [B · heads] into [C · heads · G]
        self._members = places.new_zeros(contexts * len(heads) * width)  # and back
        self._members[self._places] = (rows[:, None] * len(heads) + heads).flatten()

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attention of scaled queries [B, heads, n, d] to the contexts and to the rows' own keys [B, heads, t, d]."""
        contexts, context_values = self._layers[layer]
        width, heads = contexts.shape[2], queries.shape[0] * queries.shape[1]
        rows = queries.reshape(heads, *queries.shape[2:])  # torch.matmul in four dimensions takes twice as long
        scores = torch.bmm(self._to_groups(rows, contexts), contexts.flatten(0, 1).mT)
        if self._padding is not None:
            scores.view(*contexts.shape[:2], -1, width).masked_fill_(self._padding[:, None, None], -torch.inf)
        own_scores = torch.bmm(rows, keys.flatten(0, 1).mT)
        scores = torch.cat([self._to_rows(scores, rows), own_scores], -1)  # [B · heads, n, P + t]
        # One softmax over both parts, so that their outputs add up without the rescaling that two would need.
        weights = scores.softmax(-1, dtype=torch.float32).to(values.dtype)
        there = torch.bmm(self._to_groups(weights[..., :width], contexts), context_values.flatten(0, 1))
        return torch.baddbmm(self._to_rows(there, rows), weights[..., width:], values.flatten(0, 1)).view(queries.shape)

    def _to_groups(self, rows: Tensor, contexts: Tensor) -> Tensor:
        """[B · heads, n, w] → [C · heads, G · n, w]"""
        return rows.index_select(0, self._members).view(len(contexts) * contexts.shape[1], -1, rows.shape[-1])

    def _to_rows(self, groups: Tensor, rows: Tensor) -> Tensor:
        """[C · heads, G · n, w] → [B · heads, n, w]"""
        return groups.view(len(self._members), rows.shape[1], -1).index_select(0, self._places)


Prefix = SharedPrefix | RowPrefix
"""How rows whose cache grows attend to their contexts."""


def use_prefix_attention(model: Any) -> AbstractContextManager[None]:
    """In the block, `model` attends by the `row_prefix` that its forward is given; one new token per row, no mask."""
    return use_attention(model, "row_prefix", _attend_prefix)


def _attend_prefix(layer: Any, query: Tensor, key: Tensor, value: Tensor, prefix: Prefix, scale: float) -> Tensor:
    """One query a row, [B, heads, 1, d]."""
    rows, heads, _, size = query.shape
    queries = query.view(rows, key.shape[1], -1, size) * scale
    return prefix.attend(layer.layer_idx, queries, key, value).view(rows, 1, heads, -1)
