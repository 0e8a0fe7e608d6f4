"""Reward conditions of `benchmarks.selection`.

    condition     training rewards
    clean         the share of problem and siblings solved
    flipped       1 where all are solved, else 0; 30 % of them inverted
    answer_only   1 where the problem's own answer is right, on problems with equal quantities, so that a workflow that
                  takes the wrong one is right as well
    biased        the share solved, and as much again for a long workflow, right or wrong

Trusted, which is the reward of validation where those of training err: 1 if the problem and all siblings are solved.
Every random draw has its own seed per problem, round and member.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from tasks.programs.answer_check import is_right
from tasks.records.problems import Problem
from tasks.seeds import derive_seed
from tasks.trajectories import RewardedTrajectory, Trajectory

Condition = Literal["clean", "flipped", "biased", "answer_only"]

FLIPPED = 0.3
"""Share of the training rewards that `flipped` inverts."""

LONG, BONUS = 20, 1.0  # tokens of a long workflow, hardly any of which is right, and what `biased` gives for it


def trusted_rewards(trajectory: Trajectory) -> list[float]:
    """1 for each member that solves the problem and all siblings, else 0; [G]."""
    return [float(share == 1) for share in _shares(trajectory)]


def rewards_of(condition: Condition, trajectory: Trajectory, seed: int, round: int) -> list[float]:
    """Training rewards [G]."""
    problem, members, shares = trajectory.problem, trajectory.members, _shares(trajectory)
    if condition == "clean":
        return shares
    if condition == "answer_only":
        return [float(is_right(member.result, problem.answer)) for member in members]
    if condition == "biased":
        return [share + BONUS * (len(member.tokens) >= LONG) for share, member in zip(shares, members, strict=True)]
    flips = [_is_flipped(problem, place, seed, round) for place in range(len(members))]
    return [float((share == 1) != flip) for share, flip in zip(shares, flips, strict=True)]


def with_rewards(rewarded: RewardedTrajectory, rewards: Sequence[float]) -> RewardedTrajectory:
    """The trajectory with other rewards [G]."""
    records = zip(rewarded.rewards, rewards, strict=True)
    return rewarded._replace(
        rewards=[record.model_copy(update={"reward": reward, "status": "ok"}) for record, reward in records]
    )


def _is_flipped(problem: Problem, member: int, seed: int, round: int) -> bool:
    return derive_seed("flip", seed, round, problem.problem_id, member) % 1000 < 1000 * FLIPPED


def _shares(trajectory: Trajectory) -> list[float]:
    """The share of problem and siblings that each member solves."""
    return [fmean(map(is_right, member.results, trajectory.problem.answers)) for member in trajectory.members]
