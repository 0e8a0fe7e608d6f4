"""What the rewards of a round look like in numbers. Failed rewards are counted, and are in no mean."""

import math
from collections.abc import Iterable, Mapping, Sequence

from tasks.environments.environment import Environment
from tasks.policy.advantages import has_signal
from tasks.records import RewardedTrajectory
from tasks.rewards.score import failed_share
from tasks.rewards.terms import correctness

CONSTANT = 1e-12
"""Deviation of a term that is one number, but for rounding."""


def metrics_of(environment: Environment, trajectories: Sequence[RewardedTrajectory]) -> dict[str, float]:
    """Sum and mean of the train rewards, mean and deviation of each term, and how many groups can teach something.

    `solved_share` is the share of the train problems with a completion that solves problem and siblings.
    A mean of nothing (no validation problems, for instance) is left out.
    """
    train = [trajectory for trajectory in trajectories if trajectory.split == "train"]
    rewards = _known(reward for trajectory in train for reward in trajectory.rewards)
    validation = _known(r for t in trajectories if t.split == "validation" for r in t.rewards)
    numbers: dict[str, float | None] = {
        "epoch/accumulated_reward": math.fsum(rewards),
        "epoch/mean_reward": _mean(rewards),
        "validation/mean_reward": _mean(validation),
        "failed_share": failed_share(trajectories),
        "timeout_share": failed_share(trajectories, "timeout"),
        "solved_share": _mean([float(_is_solved(environment, trajectory)) for trajectory in train]),
        "groups_with_signal": sum(has_signal(trajectory.rewards) for trajectory in train),
    }
    for name in train[0].reward_terms if train else ():
        column = [value for trajectory in train for value in trajectory.reward_terms[name]]
        values = _known(column)
        numbers[f"{name}/failed_share"] = (len(column) - len(values)) / max(len(column), 1)
        numbers[f"{name}/mean"] = _mean(values)
        numbers[f"{name}/std"] = _deviation(values)
    return {name: number for name, number in numbers.items() if number is not None}


def remarks(numbers: Mapping[str, float]) -> list[str]:
    """What in the numbers of a round a reader should be warned of: the terms that teach nothing."""
    terms = [key.removesuffix("/std") for key in numbers if key.endswith("/std")]
    constant = [name for name in terms if numbers[f"{name}/std"] < CONSTANT]
    return [
        f"rewards.{name} is {numbers[f'{name}/mean']:.3g} for every completion: it teaches nothing; "
        f"set its weight to 0, or see why none {'differs' if numbers[f'{name}/mean'] else 'earns any'}"
        for name in constant
    ]


def _is_solved(environment: Environment, trajectory: RewardedTrajectory) -> bool:
    return any(correctness(environment, trajectory, member) == 1 for member in range(len(trajectory.workflow_ids)))


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _deviation(values: Sequence[float]) -> float | None:
    """Standard deviation of the whole set (ddof 0)."""
    mean = _mean(values)
    return None if mean is None else math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
