"""Samples of the highest and the lowest influence of a round, with their completions."""

from tasks.artifacts import read_jsonl, stream_jsonl
from tasks.core.terminal import shortened
from tasks.layout import Layout
from tasks.programs.operators.builtin import without_context
from tasks.records.record import Record
from tasks.records.selection import Selected
from tasks.statistics.influence_histogram import measured_lines
from tasks.trajectories import Trajectory

EXTREMES = 3
"""Samples at each end."""

MAX_CHARACTERS = 600
"""Characters of a question and of a completion."""


class InfluenceExample(Record):
    """A training sample, its influence, and whether the update saw it."""

    problem_id: str
    member: int
    question: str
    completion: str
    advantage: float
    influence: float
    selected: bool


def influence_extremes(layout: Layout, round: int) -> list[InfluenceExample]:
    """The EXTREMES samples of highest influence and those of lowest, the highest first.

    [] where the trajectories are gone.
    """
    lines = measured_lines(read_jsonl(layout.selection(round), Selected))
    ranked = sorted(lines, key=lambda line: (-(line.influence or 0.0), line.problem_id, line.member))
    ends = ranked if len(ranked) <= 2 * EXTREMES else [*ranked[:EXTREMES], *ranked[-EXTREMES:]]
    path, missing = layout.trajectories(round), {line.problem_id for line in ends}
    trajectories: dict[str, Trajectory] = {}
    if missing and path.is_file():
        for trajectory in stream_jsonl(path, Trajectory):
            if trajectory.problem_id in missing:
                trajectories[trajectory.problem_id] = trajectory
                if len(trajectories) == len(missing):
                    break
    return [
        InfluenceExample(
            problem_id=line.problem_id,
            member=line.member,
            question=shortened(without_context(trajectories[line.problem_id].problem.question), MAX_CHARACTERS),
            completion=shortened(trajectories[line.problem_id].members[line.member].code, MAX_CHARACTERS),
            advantage=line.advantage,
            influence=line.influence or 0.0,
            selected=line.selected,
        )
        for line in ends
        if line.problem_id in trajectories and line.member < len(trajectories[line.problem_id].members)
    ]
