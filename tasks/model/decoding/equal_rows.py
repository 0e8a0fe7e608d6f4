"""Rows of a batch that have the same tokens so far, whose next logits are the same: they are computed once.

Samples of one prompt begin alike, and most of a trained policy's are the same to the end: of 20 for each of 48 prompts
of SmolLM2-135M (preset smollm2) less than half of the rows of a step differ.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

FEWEST = 16
"""Rows that are computed at least: a product of fewer takes hardly less time on a CPU, and adds in another order, while
with so many a row's numbers are the same to the bit in a batch of any size."""

DISTINCT_SHARE = 0.75
"""Rows are joined where at most this share of them differs: telling them apart costs more than a few rows."""


@dataclass(frozen=True)
class DistinctRows:
    """D of B rows, and where each of the B rows finds one with its tokens among them."""

    rows: Tensor  # [D]
    places: Tensor  # [B]


class EqualRows:
    """Which of the B live rows of a batch have the same tokens so far."""

    def __init__(self, owner: Tensor) -> None:
        """`owner` [B]: the context of each row, which has no other tokens yet."""
        self._numbers = owner  # rows with one number have the same tokens

    def keep(self, rows: Tensor) -> None:
        """Drop all other rows."""
        self._numbers = self._numbers[rows]

    def append(self, tokens: Tensor, unfinished: Tensor) -> DistinctRows | None:
        """The rows that differ after one more token [B] of each; None where joining the others is not worth it.

        What is after the end of a row, where `unfinished` [B] is False, is never read: all of these are one row.
        """
        histories = ((self._numbers << 32) + tokens).masked_fill(~unfinished, -1)
        distinct, self._numbers = torch.unique(histories, return_inverse=True)
        count = len(tokens)
        if max(len(distinct), FEWEST) > DISTINCT_SHARE * count:
            return None
        rows = torch.full_like(distinct, count)
        rows.scatter_reduce_(0, self._numbers, torch.arange(count, device=tokens.device), "amin")
        return DistinctRows(torch.cat([rows, rows[:1].expand(max(FEWEST - len(rows), 0))]), self._numbers)
