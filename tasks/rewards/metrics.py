"""What the rewards of a round look like in numbers. Failed rewards are counted, and are in no mean."""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import variance

from tasks.environments.environment import Environment
from tasks.policy.advantages import has_signal
from tasks.records import RewardedTrajectory
from tasks.rewards.score import failed_share
from tasks.rewards.terms import correctness

CONSTANT = 1e-12
"""Deviation of a term that is one number, but for rounding."""

STILL = 3
"""So many rounds without a change are worth a word."""

CHANCE = 1.96
"""Standard errors that chance rarely exceeds (1 time in 20)."""


def metrics_of(environment: Environment, trajectories: Sequence[RewardedTrajectory]) -> dict[str, float]:
    """Sum and mean of the train rewards, mean and deviation of each term, and how many groups can teach something.

    `groups` are those of two or more members. `mean_reward_error` is the standard error of the mean reward over other
    completions of the same problems, √(Σ G s²) / Σ G with s the deviation in a group of G: a rough one, for what the
    tree finds is not drawn independently.
    `solved_share` is the share of the train problems with a completion that solves problem and siblings.
    A mean of nothing (no validation problems, for instance) is left out.
    """
    train = [trajectory for trajectory in trajectories if trajectory.split == "train"]
    rewards = _known(reward for trajectory in train for reward in trajectory.rewards)
    validation = _known(r for t in trajectories if t.split == "validation" for r in t.rewards)
    numbers: dict[str, float | None] = {
        "epoch/accumulated_reward": math.fsum(rewards),
        "epoch/mean_reward": _mean(rewards),
        "mean_reward_error": _error([_known(trajectory.rewards) for trajectory in train]),
        "validation/mean_reward": _mean(validation),
        "failed_share": failed_share(trajectories),
        "timeout_share": failed_share(trajectories, "timeout"),
        "solved_share": _mean([float(_is_solved(environment, trajectory)) for trajectory in train]),
        "groups": sum(len(_known(trajectory.rewards)) > 1 for trajectory in train),
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
    """What in the numbers of a round a reader should be warned of: what teaches nothing."""
    terms = [key.removesuffix("/std") for key in numbers if key.endswith("/std")]
    constant = [name for name in terms if numbers[f"{name}/std"] < CONSTANT]
    found = [
        f"rewards.{name} is {numbers[f'{name}/mean']:.3g} for every completion: it teaches nothing; "
        f"set its weight to 0, or see why none {'differs' if numbers[f'{name}/mean'] else 'earns any'}"
        for name in constant
    ]
    varying = [name for name in terms if name not in constant]
    if varying and numbers.get("groups") and not numbers["groups_with_signal"]:
        found.append(
            "no group has two different rewards, so none teaches anything; raise search.temperature or "
            "grpo.group_size, or give problems that are neither always solved nor never"
        )
    return found


def unmoved(rounds: Mapping[int, Mapping[str, float]]) -> list[str]:
    """A remark where the mean reward of the last STILL rounds differs by no more than chance from the one before them.

    `rounds` are the numbers of each by `metrics_of`, in order; the means of two rounds differ by chance where that is
    at most CHANCE standard errors of the difference. Nothing is said of fewer rounds, nor of groups of one.
    """
    if len(rounds) <= STILL or any("mean_reward_error" not in numbers for numbers in rounds.values()):
        return []
    start, *since = list(rounds)[-STILL - 1 :]
    if any(abs(_mean_of(rounds[n]) - _mean_of(rounds[start])) > _chance(rounds[n], rounds[start]) for n in since):
        return []
    levels = ", ".join(f"{_mean_of(rounds[number]):.3f}" for number in (start, *since))
    return [
        f"The mean reward has not moved since round {start} ({levels}): none differs by more than chance; raise "
        "grpo.learning_rate or search.simulations, give harder or easier problems, or stop earlier"
    ]


def _mean_of(numbers: Mapping[str, float]) -> float:
    return numbers["epoch/mean_reward"]


def _chance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    return CHANCE * math.hypot(one["mean_reward_error"], other["mean_reward_error"])


def _error(groups: Sequence[Sequence[float]]) -> float | None:
    """Standard error of the mean over all groups' rewards, with the groups given; None where no group has two."""
    spread = [len(own) * variance(own) for own in groups if len(own) > 1]
    return math.sqrt(math.fsum(spread)) / sum(map(len, groups)) if spread else None


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
