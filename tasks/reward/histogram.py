"""Histogram of a round's rewards: BINS equal bins from the least reward to the highest that the weights allow."""

from collections.abc import Iterable, Sequence
from typing import Annotated

from pydantic import Field

from tasks.core.metrics_files import read_table
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.records.record import Record

BINS = 20
"""With the shares of a problem and its siblings as rewards, hardly two of them are in one bin."""

ROUNDING = 1e-9
"""Share of a bin by which a reward on an edge may be below it: sums of weighted terms are rounded."""


class RewardBin(Record):
    """The number of completions with low ≤ reward < high, in the last bin ≤ high."""

    low: float
    high: float
    completions: Annotated[int, Field(ge=0, le=10**12)]


def reward_histogram(rewards: Iterable[float], least: float, highest: float) -> list[RewardBin]:
    """The bins from `least` to `highest`; all rewards are between them, up to rounding."""
    width = (highest - least) / BINS or 1.0
    counts = [0] * BINS
    for reward in rewards:
        counts[min(max(int((reward - least) / width + ROUNDING), 0), BINS - 1)] += 1
    return [
        RewardBin(low=least + i * width, high=least + (i + 1) * width, completions=count)
        for i, count in enumerate(counts)
    ]


def histogram_csv(bins: Sequence[RewardBin]) -> str:
    """The table that `dvc plots` draws."""
    rows = [[*RewardBin.model_fields], *(list(bin.model_dump().values()) for bin in bins)]
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


def read_histogram(layout: Layout, round: int) -> list[RewardBin]:
    """The histogram of a round. Raises GraftError that names the stage to run."""
    path = layout.reward_histogram(round)
    try:
        return [
            RewardBin(low=row["low"], high=row["high"], completions=int(row["completions"])) for row in read_table(path)
        ]
    except (OSError, ValueError, KeyError) as error:
        raise GraftError(f"{path}: no histogram ({error}); run graft stage reward@{round}") from None
