"""A key-value cache that is written in place, without a copy of the old entries for each new token.

transformers' own concatenates: its n-th token copies the n - 1 before it, in each layer.
"""

from typing import Any

from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer

CHUNK = 64  # tokens by which it grows: reserving the full budget would hold memory that most rows never use


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
