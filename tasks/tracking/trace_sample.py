"""Sample of a round's completions for MLflow's traces: some of each outcome, and the most and least influential.

A completion here is a workflow of a problem: those that wrote the same one differ in nothing that a reader sees.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Literal

from tasks.artifacts import read_jsonl
from tasks.programs.answer_check import is_right
from tasks.records import NUMBER, Answer, Result, Selected
from tasks.seeds import derive_seed
from tasks.trajectories import Member, Reward, RewardedTrajectory, Trajectory, read_rewarded

COUNT = 24
"""Traces of a run."""

PROBLEMS = 64
"""Problems of each kind among which a sample is chosen: most influential, least influential, any."""

Outcome = Literal["right", "wrong", "invalid"]

Key = tuple[str, str]
"""Problem and workflow."""


@dataclass(frozen=True)
class SampledProgram:
    """One execution of a completion's workflow; of an environment without programs, the reading of its answer."""

    name: str
    question: str
    expected: Answer
    result: Result


@dataclass(frozen=True)
class SampledCompletion:
    """What a trace shows of a completion."""

    round: int
    trajectory: Trajectory
    member: Member
    copies: int  # completions of its group that wrote this workflow
    reward: Reward
    selection: Selected | None

    @property
    def key(self) -> Key:
        return self.trajectory.problem_id, self.member.workflow_id

    @property
    def influence(self) -> float | None:
        return self.selection.influence if self.selection else None

    @property
    def outcome(self) -> Outcome:
        """`invalid` if it returned nothing; where the answer is not a number, right if its term `correctness` is 1."""
        result, problem = self.member.result, self.trajectory.problem
        if result.status != "ok":
            return "invalid"
        by_term = self.reward.terms.get("correctness") == 1
        right = is_right(result, problem.answer) if problem.evaluator == NUMBER else by_term
        return "right" if right else "wrong"

    @property
    def programs(self) -> list[SampledProgram]:
        """Its executions on the problem's own question, then on its siblings'."""
        problem = self.trajectory.problem
        names = ["problem", *(f"sibling {number}" for number in range(1, len(problem.siblings) + 1))]
        rows = zip(names, problem.questions, problem.answers, self.member.results, strict=True)
        return [SampledProgram(*row) for row in rows]


def traces_by_round(last: int) -> dict[int, int]:
    """Round → number of its traces: half are of the first round, half of the last."""
    return {1: COUNT} if last == 1 else {1: COUNT // 2, last: COUNT - COUNT // 2}


def read_sample(trajectories: Path, selection: Path, round: int, count: int, seed: int) -> list[SampledCompletion]:
    """At most `count` completions of a round, a function of its files and the seed. Raises GraftError naming the file.

    The trajectories are read once, one at a time.
    """
    lines: dict[Key, Selected] = {}
    for line in read_jsonl(selection, Selected):
        lines.setdefault((line.problem_id, line.workflow_id), line)
    problems = _problems(lines, round, seed)
    groups = (group for group in read_rewarded(trajectories) if group.trajectory.problem_id in problems)
    completions = list(chain.from_iterable(completions_of(group, lines, round) for group in groups))
    return choose(completions, count, seed)


def choose(completions: Sequence[SampledCompletion], count: int, seed: int) -> list[SampledCompletion]:
    """In turn the next most influential, least influential, right, wrong and invalid one, each at most once."""
    measured = [completion for completion in completions if completion.influence]
    by_influence = sorted(measured, key=lambda completion: (-(completion.influence or 0.0), completion.key))
    drawn = sorted(completions, key=lambda completion: derive_seed(seed, "traces", completion.round, *completion.key))
    outcomes: tuple[Outcome, ...] = ("right", "wrong", "invalid")
    kinds = [by_influence, by_influence[::-1], *([e for e in drawn if e.outcome == kind] for kind in outcomes)]
    turns = [completion for turn in zip_longest(*kinds) for completion in turn if completion is not None]
    return list(islice({completion.key: completion for completion in turns}.values(), count))


def completions_of(group: RewardedTrajectory, lines: Mapping[Key, Selected], round: int) -> Iterator[SampledCompletion]:
    """The distinct completions of a problem."""
    trajectory, rewards = group
    copies, shown = Counter(member.workflow_id for member in trajectory.members), set[str]()
    for member, reward in zip(trajectory.members, rewards, strict=True):
        name = member.workflow_id
        if name not in shown:
            shown.add(name)
            line = lines.get((trajectory.problem_id, name))
            yield SampledCompletion(round, trajectory, member, copies[name], reward, line)


def _problems(lines: Mapping[Key, Selected], round: int, seed: int) -> set[str]:
    """Problems of which a sample is chosen, so that a round of any size fits into memory."""
    ordered = sorted(lines.values(), key=lambda line: -(line.influence or 0.0))
    by_influence = [line.problem_id for line in ordered if line.influence]
    drawn = sorted(
        {line.problem_id for line in lines.values()}, key=lambda name: derive_seed(seed, "traces", round, name)
    )
    return {*_first(by_influence), *_first(reversed(by_influence)), *drawn[:PROBLEMS]}


def _first(names: Iterable[str]) -> list[str]:
    return list(islice(dict.fromkeys(names), PROBLEMS))
