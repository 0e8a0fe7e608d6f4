"""Key-value caches that are written in place, without a copy of the old entries for each new token.

One grows; the other has a fixed number of places, and a tensor says which of them is written, so that a CUDA graph can
replay the step that writes it.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers.cache_utils import DynamicCache, DynamicLayer

CHUNK = 64  # tokens by which it grows: reserving the full budget would hold memory that most rows never use


def growing_cache(config: Any) -> Any:
    """transformers' cache for this model, with layers that are written in place where they keep all tokens."""
    new = DynamicCache(config=config)
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
            self._buffers = (key_states[:, :, :0], value_states[:, :, :0])
        length = used + key_states.shape[-2]
        if length > self._buffers[0].shape[-2]:
            self._move(slice(None), used, length + CHUNK)
        for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, used:length] = new
        return self._set_views(length)

    def batch_select_indices(self, indices: Tensor) -> None:
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
    buffer = states.new_empty(*states.shape[:2], room, states.shape[-1])
    buffer[:, :, : states.shape[-2]] = states
    return buffer


class StaticPlaces:
    """The places of B rows in a static cache: a row has S of them, of which its tokens take the first.

    The tensors stay the same while rows and room do, so that a CUDA graph can replay what reads and changes them.
    """

    def __init__(self, used: Tensor, room: int) -> None:
        """`used` [B] tokens of each row; `room`: S."""
        self.used, self.room = used.int(), room
        self.next = torch.zeros(len(used), dtype=torch.long, device=used.device)  # [B] of B · S: the token to come
        self._starts = torch.arange(0, len(used) * room, room, device=used.device)

    def take_next(self) -> None:
        """Each row has one more token, which is written at `next`."""
        self.next.copy_(self._starts + self.used)
        self.used += 1


def static_cache(grown: Any, order: Tensor | None) -> Any:
    """A cache of the tokens of another, which `growing_cache` made, in places that do not move.

    `order` [C, P] are the places of each context's tokens, padding last; None: as they are. It is written once
    `place_rows` has given it rows.
    """
    new = DynamicCache()
    new.layers = [StaticLayer(layer.keys, layer.values, order) for layer in grown.layers]
    return new


class StaticLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values [B, S, heads, d]."""

    def __init__(self, keys: Tensor, values: Tensor, order: Tensor | None) -> None:
        super().__init__()
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True
        self.keys, self.values = keys.transpose(1, 2), values.transpose(1, 2)
        if order is not None:
            places = order[:, :, None, None]
            self.keys, self.values = (states.take_along_dim(places, 1) for states in (self.keys, self.values))

    def update(self, key_states: Tensor, value_states: Tensor, *_args: Any, **_kwargs: Any) -> tuple[Tensor, Tensor]:
        for states, new in ((self.keys, key_states), (self.values, value_states)):
            states.view(-1, *states.shape[2:]).index_copy_(0, self._places.next, new[:, :, 0])
        return self.keys.transpose(1, 2), self.values.transpose(1, 2)

    def place_rows(self, rows: Any, places: StaticPlaces) -> None:
        """Keep these rows, in such places; those of tokens to come are 0, as attention may read them."""
        self._places = places
        kept = (states[rows] for states in (self.keys, self.values))
        room = (0, 0, 0, 0, 0, places.room - self.keys.shape[1])
        self.keys, self.values = (pad(states, room).contiguous() for states in kept)
