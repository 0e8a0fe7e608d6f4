"""A key-value cache whose tensors do not move, and the attention to it, so that a CUDA graph can replay a step.

Each row has a fixed number of places, and a tensor says which of them is written next.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers.cache_utils import DynamicCache, DynamicLayer

FLASH_WIDTH = 256
"""The widest head of torch's flash attention."""


class StaticPlaces:
    """The places of B rows in a static cache: a row has S of them, of which its tokens take the first.

    The tensors stay the same while rows and room do, so that a CUDA graph can replay what reads and changes them.
    """

    def __init__(self, used: Tensor, room: int) -> None:
        """`used` [B] tokens of each row; `room`: S."""
        # A graph replays with the addresses of its capture: these tensors are changed in place and never replaced.
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
    """Keys and values [B, S, heads, d]: places come before heads, so that a token is one row of [B · S, heads, d]."""

    def __init__(self, keys: Tensor, values: Tensor, order: Tensor | None) -> None:
        super().__init__()
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True
        self.keys, self.values = keys.transpose(1, 2), values.transpose(1, 2)
        if order is not None:
            places = order[:, :, None, None]
            self.keys, self.values = (states.take_along_dim(places, 1) for states in (self.keys, self.values))

    def update(self, key_states: Tensor, value_states: Tensor, *_args: Any, **_kwargs: Any) -> tuple[Tensor, Tensor]:
        # A slice by the row's length would be captured as that number: the place is read from a tensor.
        for states, new in ((self.keys, key_states), (self.values, value_states)):
            states.view(-1, *states.shape[2:]).index_copy_(0, self._places.next, new[:, :, 0])
        return self.keys.transpose(1, 2), self.values.transpose(1, 2)

    def place_rows(self, rows: Any, places: StaticPlaces) -> None:
        """Keep these rows, in such places; those of tokens to come are 0, as attention may read them.

        What it reads there has the weight 0, and 0 times a NaN of unwritten memory would be NaN.
        """
        self._places = places
        kept = (states[rows] for states in (self.keys, self.values))
        room = (0, 0, 0, 0, 0, places.room - self.keys.shape[1])
        self.keys, self.values = (pad(states, room).contiguous() for states in kept)


class StaticPrefix:
    """Each row's context and its own tokens are the first of its places in a static cache.

    On a CUDA card in 16 bits torch's flash attention reads no others; elsewhere all are read, and masked.
    """

    def __init__(self, places: StaticPlaces, keys: Tensor) -> None:
        """`keys` [B, S, heads, d] of one of the cache's layers."""
        self._places, rows = places, torch.arange(len(keys) + 1, dtype=torch.int32, device=keys.device)
        self._is_flash = keys.is_cuda and keys.itemsize == 2 and keys.shape[-1] <= FLASH_WIDTH
        self._rows, self._starts = rows, rows * places.room
        self._numbers = torch.arange(places.room, device=keys.device)
        self._bias = keys.new_zeros(len(keys), 1, 1, places.room)

    def take_next(self) -> None:
        """Rows have one more token."""
        self._places.take_next()
        if not self._is_flash:
            there = self._numbers < self._places.used[:, None, None, None]
            self._bias.copy_(torch.where(there, 0, float("-inf")))

    def attend(self, _layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attention of scaled queries [B, heads, n, d] to the keys and values [B, heads, S, d] that are there."""
        if self._is_flash:
            # The operation itself, as scaled_dot_product_attention has no lengths by row.
            flash, room, used = torch.ops.aten._flash_attention_forward, self._places.room, self._places.used
            flat = queries.flatten(1, 2), *(states.transpose(1, 2).flatten(0, 1) for states in (keys, values))
            output = flash(*flat, self._rows, self._starts, 1, room, 0.0, False, False, scale=1.0, seqused_k=used)[0]
            return output.view(queries.shape)  # type: ignore[no-any-return]
        scores = (queries @ keys.mT).add_(self._bias)
        weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(values.dtype)
        return weights @ values
