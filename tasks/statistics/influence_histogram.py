"""Histogram of a round's influences.

Of the samples that have a gradient: the others (no advantage, or a weight of 0 in the update) have influence 0 whatever
they are, and would hide the rest.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tasks.records.selection import Selected

BINS = 20
"""An even number: 0 is an edge, so that every bin has one sign."""

INNER_PERCENTILE = 90
"""This percentile of |influence| is where the outermost bins begin to hold all beyond: influence has long tails, and
equal bins from end to end would show one bar."""


class Bin(NamedTuple):
    """The number of samples with low ≤ influence < high, in the last bin ≤ high."""

    low: float
    high: float
    selected: int
    not_selected: int


def measured_lines(lines: Sequence[Selected]) -> list[Selected]:
    """The lines of samples that have a gradient and whose influence was measured."""
    return [line for line in lines if line.advantage != 0 and line.influence is not None and line.gradient_norm]


def influence_histogram(lines: Sequence[Selected]) -> list[Bin]:
    """BINS bins, symmetric about 0 but for the outer ends; [] where no influence was measured, or validation gave no
    signal."""
    import numpy as np

    measured = measured_lines(lines)
    if not any(line.influence for line in measured):  # without a signal in validation all are 0
        return []
    values = np.array([line.influence for line in measured], dtype=np.float64)
    kept = np.array([line.selected for line in measured])
    sizes = np.abs(values)
    reach = float(np.percentile(sizes, INNER_PERCENTILE)) or float(sizes.max())
    edges = np.arange(-(BINS // 2), BINS // 2 + 1) * (reach / (BINS // 2))
    edges[0], edges[-1] = min(edges[0], values.min()), max(edges[-1], values.max())
    ends = edges.tolist()
    counts = [np.histogram(values[chosen], edges)[0].tolist() for chosen in (kept, ~kept)]
    return [Bin(*row) for row in zip(ends[:-1], ends[1:], *counts, strict=True)]
