"""Rows of a batch that have the same tokens so far, whose next logits are the same: they are computed once.

Samples of one prompt begin alike, and many of a trained policy's are the same to the end.
"""

from typing import NamedTuple

import torch
from torch import Tensor

FEWEST = 16
"""Rows that are computed at least: from 16 on, a CPU's numbers for a row are the same in a batch of any size."""

DISTINCT_SHARE = 0.75
"""Rows are joined where at most this share of them differs: telling them apart costs more than a few rows."""


class DistinctRows(NamedTuple):
    """The D of B rows that differ, and the place [B] among them of one with each row's tokens."""

    rows: Tensor
    places: Tensor


class EqualRows:
    """Which of the B live rows of a batch have the same tokens so far; at first those of the same context, `owner`."""

    def __init__(self, owner: Tensor) -> None:
        self._numbers = owner  # equal for rows that have the same tokens

    def keep(self, rows: Tensor) -> None:
        """Drop all other rows."""
        self._numbers = self._numbers[rows]

    def append(self, tokens: Tensor, unfinished: Tensor) -> DistinctRows | None:
        """The rows that differ after one more token [B] of each, finished ones being one; None: too many differ."""
        histories = ((self._numbers << 32) + tokens).masked_fill(~unfinished, -1)
        distinct, self._numbers = torch.unique(histories, return_inverse=True)
        if max(len(distinct), FEWEST) > DISTINCT_SHARE * len(tokens):
            return None
        rows = torch.arange(len(tokens), device=tokens.device)
        rows = torch.full_like(distinct, len(tokens)).scatter_reduce_(0, self._numbers, rows, "amin")
        return DistinctRows(torch.cat([rows, rows[:1].expand(max(FEWEST - len(rows), 0))]), self._numbers)
