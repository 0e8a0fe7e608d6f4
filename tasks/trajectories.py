"""Trajectories and their rewards: two files of a round that belong together, line by line.

`trajectories.jsonl` has a line for each problem, `rewards.jsonl` next to it a line for each completion, in the same
order.
"""

from collections.abc import Iterator
from operator import not_
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from tasks.artifacts import read_numbered
from tasks.errors import GraftError
from tasks.layout import REWARDS
from tasks.records.problems import Split
from tasks.records.programs import Result
from tasks.records.record import Record
from tasks.records.search import AskedProblem, Engine, Proposer

RewardStatus = Literal["ok", "failed", "timeout"]


class Member(Record):
    """One completion of a group, with its workflow and what running that gave."""

    workflow_id: str
    code: str
    proposer: Proposer
    result: Result
    sibling_results: list[Result]
    tokens: list[int]  # of the completion; [] = tokenize the code
    logprobs: list[float]  # behaviour log-probabilities; [] = unknown, computed before the update
    kept: list[list[int]] = Field(default=[], exclude_if=not_)
    """With `search.top_p` or `top_k`, [T][…]: as in `Completion`."""
    agreement: float | None = Field(default=None, exclude_if=lambda agreement: agreement is None)
    """The weight of its answer if that is right; None if a sibling has another answer."""

    @property
    def results(self) -> list[Result]:
        """On the problem, then on its siblings."""
        return [self.result, *self.sibling_results]


class Trajectory(AskedProblem):
    """A problem with its group of G completions: a line of `trajectories.jsonl`."""

    members: list[Member]
    policy_version: str  # hash of the round's policy
    engine: Engine | None = Field(default=None, exclude_if=lambda engine: engine is None)
    """That sampled the completions with log-probabilities; None: Graft itself."""


class Reward(Record):
    """The reward of a member: a line of `rewards.jsonl`. If `status` is not ok, it is None, never 0 or NaN."""

    problem_id: str
    split: Split
    member: int  # index in the group
    workflow_id: str
    reward: float | None
    terms: dict[str, float | None]
    status: RewardStatus


class RewardedTrajectory(NamedTuple):
    """A trajectory with the rewards of its members, [G]."""

    trajectory: Trajectory
    rewards: list[Reward]


def read_numbered_rewarded(trajectories: Path) -> Iterator[tuple[int, RewardedTrajectory]]:
    """The trajectories of a file with the rewards next to it, one at a time, each with its line number.

    Raises GraftError that names file and line for a trajectory whose rewards are missing, and for a reward that is
    doubled, out of order or of no trajectory.
    """
    path, remedy = trajectories.with_name(REWARDS), "run the reward stage again"
    lines = read_numbered(path, Reward)
    for number, trajectory in read_numbered(trajectories, Trajectory):
        rewards: list[Reward] = []
        for place, member in enumerate(trajectory.members):
            expected = f"completion {place} of problem {trajectory.problem_id!r}"
            line, reward = next(lines, (0, None))
            if reward is None:
                raise GraftError(f"{trajectories}:{number}: {expected} has no line in {path}; {remedy}")
            names = (reward.split, reward.problem_id, reward.member, reward.workflow_id)
            if names != (trajectory.split, trajectory.problem_id, place, member.workflow_id):
                raise GraftError(f"{path}:{line}: is not of {expected}, as {trajectories}:{number} is; {remedy}")
            rewards.append(reward)
        yield number, RewardedTrajectory(trajectory, rewards)
    for line, _ in lines:
        raise GraftError(f"{path}:{line}: is of no completion in {trajectories}; {remedy}")
