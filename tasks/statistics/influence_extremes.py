"""Most and least influential workflows of a round, and a histogram of its influences.

Of the samples that have a gradient: the others (no advantage, or a weight of 0 in the update) have influence 0 whatever
they are, and would hide the rest.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple

from tasks.artifacts import read_jsonl
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.records import Proposer, Selected
from tasks.trajectories import Member, RewardedTrajectory, read_rewarded

COUNT = 10
"""The number of most influential workflows, and of least influential ones."""

BINS = 20
"""An even number: 0 is an edge, so that every bin has one sign."""

INNER_PERCENTILE = 90
"""This percentile of |influence| is where the outermost bins begin to hold all beyond: influence has long tails, and
equal bins from end to end would show one bar."""


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
    selection, trajectories = layout.selection(round), layout.trajectories(round)
    lines = read_jsonl(selection, Selected)
    if all(line.influence is None for line in lines):
        return None
    try:
        return influence_extremes(lines, read_rewarded(trajectories))
    except KeyError as error:
        raise GraftError(f"{selection}: not of {trajectories} ({error}); run graft stage select@{round}") from None


def influence_extremes(lines: Sequence[Selected], rewarded: Iterable[RewardedTrajectory]) -> InfluenceExtremes | None:
    """Extremes of a round's selection, made of these trajectories; None where no influence was measured.

    Raises KeyError with (problem, workflow) where a ranked line is of none of the trajectories.
    """
    measured = [line for line in lines if line.advantage != 0 and line.influence is not None and line.gradient_norm]
    if not any(line.influence for line in measured):  # without a signal in validation all are 0
        return None
    influences = [line.influence or 0.0 for line in measured]
    most, least = (_first_lines(measured, sign) for sign in (-1, 1))
    written = _written(rewarded, {_key(line) for line in (*most, *least)})
    completions = Counter(_key(line) for line in measured)
    return InfluenceExtremes(
        most=_ranked("most", most, completions, written),
        least=_ranked("least", least, completions, written),
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


_Key = tuple[str, str]
"""Problem and workflow."""

_Written = tuple[str, Member, float | None]
"""The question of a problem, a member and its reward."""


def _written(rewarded: Iterable[RewardedTrajectory], wanted: Collection[_Key]) -> dict[_Key, _Written]:
    """The wanted workflows of the train problems."""
    written: dict[_Key, _Written] = {}
    for trajectory, rewards in rewarded:
        for member, reward in zip(trajectory.members, rewards, strict=True):
            key = (trajectory.problem_id, member.workflow_id)
            if trajectory.split != "train" or key not in wanted:
                continue
            if key not in written or written[key][2] is None:  # a failed reward says less than its twin's
                written[key] = (trajectory.problem.question, member, reward.reward)
    return written


def _first_lines(measured: Sequence[Selected], sign: int) -> list[Selected]:
    """The first COUNT distinct workflows by `sign` times their influence; of equal ones the earlier in the file."""
    first: dict[_Key, Selected] = {}
    for line in sorted(measured, key=lambda line: sign * (line.influence or 0.0)):
        first.setdefault(_key(line), line)
    return list(islice(first.values(), COUNT))


def _ranked(
    end: Literal["most", "least"],
    lines: Sequence[Selected],
    completions: Mapping[_Key, int],
    written: Mapping[_Key, _Written],
) -> list[RankedWorkflow]:
    rows = []
    for rank, line in enumerate(lines, start=1):
        question, member, reward = written[_key(line)]
        rows.append(
            RankedWorkflow(
                end=end,
                rank=rank,
                influence=line.influence or 0.0,
                reward=reward,
                advantage=line.advantage,
                completions=completions[_key(line)],
                proposer=member.proposer,
                selected=line.selected,
                problem_id=line.problem_id,
                question=question,
                code=member.code,
            )
        )
    return rows


def _key(line: Selected) -> _Key:
    return line.problem_id, line.workflow_id
