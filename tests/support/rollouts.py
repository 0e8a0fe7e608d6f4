"""Rounds of simulated completions, whose answers agree more often where they are right."""

import random
from collections.abc import Callable, Sequence
from functools import cache

from tasks.records.problems import Problem, Split
from tasks.records.programs import Result
from tasks.trajectories import RewardedTrajectory
from tests.support.groups import make_group, with_rewards

SAMPLES = 8


@cache
def simulate_round(
    seed: int, problems: int, split: Split = "train", samples: int = SAMPLES
) -> list[RewardedTrajectory]:
    """Groups with true rewards, 0 or 1. A problem's completions are right with a probability of its own; wrong ones
    have one of six answers, or fail."""
    rng, groups = random.Random(f"{seed} {split}"), []
    for place in range(problems):
        chance, wrong = rng.random(), [rng.randrange(2, 99) for _ in range(6)]
        right = [rng.random() < chance for _ in range(samples)]
        results = [Result(status="ok", value=1) if own else _wrong_result(rng, wrong) for own in right]
        name = f"{split}-{place}"
        group = make_group(
            [f"code {place} {member}" for member in range(samples)],
            results,
            split=split,
            problem=Problem(problem_id=name, question=f"{name}?", answer=1, source="test", template=f"t{place % 4}"),
            logprobs=[[-0.5 - rng.random()] for _ in right],
        )
        groups.append(with_rewards(group, [float(own) for own in right]))
    return groups


def _wrong_result(rng: random.Random, answers: Sequence[int]) -> Result:
    if rng.random() < 0.2:
        return Result(status="error", error="E")
    return Result(status="ok", value=rng.choice(answers))


def with_changed_rewards(
    groups: Sequence[RewardedTrajectory], change: Callable[[RewardedTrajectory, int, float], float | None]
) -> list[RewardedTrajectory]:
    """The groups with `change(group, place, reward)` for each known reward."""
    return [
        with_rewards(
            group.trajectory,
            [None if r.reward is None else change(group, place, r.reward) for place, r in enumerate(group.rewards)],
        )
        for group in groups
    ]


def invert(groups: Sequence[RewardedTrajectory], share: float, seed: int) -> list[RewardedTrajectory]:
    """The groups with a random share of their rewards inverted."""
    rng = random.Random(seed)
    return with_changed_rewards(groups, lambda _group, _place, reward: 1 - reward if rng.random() < share else reward)
