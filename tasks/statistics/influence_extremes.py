"""Most and least influential workflows of a round, and a histogram of its influences.

Of the samples that have a gradient: the others (no advantage, or a weight of 0 in the update) have influence 0 whatever
they are, and would hide the rest.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from tasks.artifacts import read_jsonl
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.records import Proposer, RewardedTrajectory, Selected, Split

COUNT = 10
"""The number of most influential workflows, and of least influential ones."""

BINS = 20
"""An even number: 0 is an edge, so that every bin has one sign."""

INNER_PERCENTILE = 90
"""This percentile of |influence| is where the outermost bins begin to hold all beyond: influence has long tails, and
equal bins from end to end would show one bar."""


class QuestionText(BaseModel):
    """The question of a problem, without its other fields."""

    model_config = ConfigDict(frozen=True, strict=True)

    question: str


class RewardedGroup(BaseModel):
    """What is read here of a rewarded trajectory: a tenth of it, in a tenth of the time."""

    model_config = ConfigDict(frozen=True, strict=True, allow_inf_nan=False)

    problem_id: str
    split: Split
    problem: QuestionText
    workflow_codes: list[str]
    workflow_ids: list[str]
    proposers: list[Proposer]
    rewards: list[float | None]


@dataclass(frozen=True)
class RankedWorkflow:
    """A workflow at one end of a round's influence: a line of the table in MLflow."""

    end: Literal["most", "least"]
    rank: int  # from 1: the most, or the least influential
    influence: float  # of its completions the highest, or the lowest
    reward: float | None
    advantage: float
    completions: int  # of its problem's group, with a gradient, that wrote it
    proposer: Proposer
    selected: bool
    problem_id: str
    question: str
    code: str


class Bin(NamedTuple):
    """The number of samples with low ≤ influence < high, in the last bin ≤ high."""

    low: float
    high: float
    selected: int
    not_selected: int


@dataclass(frozen=True)
class InfluenceExtremes:
    """`most` and `least` hold at most COUNT workflows, rank 1 first; where a round has few, some are in both."""

    most: list[RankedWorkflow]
    least: list[RankedWorkflow]
    histogram: list[Bin]


def read_influence_extremes(layout: Layout, round: int) -> InfluenceExtremes | None:
    """The extremes and histogram of a round's influence; None if not measured. Raises GraftError naming the file."""
    selection, rewarded = layout.selection(round), layout.rewarded(round)
    lines = read_jsonl(selection, Selected)
    if all(line.influence is None for line in lines):
        return None
    trajectories = [t for t in read_jsonl(rewarded, RewardedGroup) if t.split == "train"]
    try:
        return influence_extremes(lines, trajectories)
    except (KeyError, ValueError) as error:
        raise GraftError(f"{selection}: not of {rewarded} ({error}); run graft stage select@{round}") from None


def influence_extremes(
    lines: Sequence[Selected], trajectories: Sequence[RewardedGroup | RewardedTrajectory]
) -> InfluenceExtremes | None:
    """Extremes of a round's selection, made of these trajectories; None where no influence was measured.

    Raises KeyError with (problem, workflow) where a line is of none of the trajectories, ValueError where one of these
    is not whole.
    """
    measured = [line for line in lines if line.advantage != 0 and line.influence is not None and line.gradient_norm]
    if not any(line.influence for line in measured):  # without a signal in validation all are 0
        return None
    influences = [line.influence or 0.0 for line in measured]
    written = _written(trajectories)
    return InfluenceExtremes(
        most=_ranked("most", measured, written),
        least=_ranked("least", measured, written),
        histogram=histogram(influences, [line.selected for line in measured]),
    )


def histogram(influences: Sequence[float], selected: Sequence[bool]) -> list[Bin]:
    """BINS bins, symmetric about 0 but for the outer ends; influences [n], not all 0, selected [n]."""
    import numpy as np

    values, kept = np.asarray(influences, dtype=np.float64), np.asarray(selected, dtype=bool)
    sizes = np.abs(values)
    reach = float(np.percentile(sizes, INNER_PERCENTILE)) or float(sizes.max())
    edges = np.arange(-(BINS // 2), BINS // 2 + 1) * (reach / (BINS // 2))
    edges[0], edges[-1] = min(edges[0], values.min()), max(edges[-1], values.max())
    ends = edges.tolist()
    counts = [np.histogram(values[chosen], edges)[0].tolist() for chosen in (kept, ~kept)]
    return [Bin(*row) for row in zip(ends[:-1], ends[1:], *counts, strict=True)]


class _Written(NamedTuple):
    reward: float | None
    proposer: Proposer
    question: str
    code: str


def _written(trajectories: Sequence[RewardedGroup | RewardedTrajectory]) -> dict[tuple[str, str], _Written]:
    """(problem, workflow) → what its group says of it. By id: the places of a selection leave out what does not fit."""
    by_workflow: dict[tuple[str, str], _Written] = {}
    for t in trajectories:
        rows = zip(t.workflow_ids, t.rewards, t.proposers, t.workflow_codes, strict=True)
        for workflow_id, reward, proposer, code in rows:
            key = (t.problem_id, workflow_id)
            if key not in by_workflow or by_workflow[key].reward is None:  # a failed reward says less than its twin's
                by_workflow[key] = _Written(reward, proposer, t.problem.question, code)
    return by_workflow


def _ranked(
    end: Literal["most", "least"], measured: Sequence[Selected], written: Mapping[tuple[str, str], _Written]
) -> list[RankedWorkflow]:
    """The first COUNT distinct workflows from this end; of equal ones the earlier in the file."""
    sign = -1 if end == "most" else 1
    completions = Counter(_key(line) for line in measured)
    first: dict[tuple[str, str], Selected] = {}
    for line in sorted(measured, key=lambda line: sign * (line.influence or 0.0)):
        first.setdefault(_key(line), line)
    return [
        RankedWorkflow(
            end=end,
            rank=rank,
            influence=line.influence or 0.0,
            reward=written[key].reward,
            advantage=line.advantage,
            completions=completions[key],
            proposer=written[key].proposer,
            selected=line.selected,
            problem_id=line.problem_id,
            question=written[key].question,
            code=written[key].code,
        )
        for rank, (key, line) in enumerate(islice(first.items(), COUNT), start=1)
    ]


def _key(line: Selected) -> tuple[str, str]:
    return line.problem_id, line.workflow_id
