"""Group-relative advantages: how much better a completion did than the others of its problem."""

import math
from collections.abc import Sequence

EPSILON = 1e-4
"""Added to the standard deviation, as in TRL 1.16."""

TOLERANCE = 1e-9
"""Rewards that differ by no more are equal: their spread is rounding, and dividing by it would invent a signal."""


def group_advantages(rewards: Sequence[float | None]) -> list[float]:
    """(r - mean) / (std + 1e-4) of each member of one group, std with ddof 1, in float64; rewards [G] → [G].

    None is a reward that failed: the member gets 0 and leaves mean and std. A group with fewer than two known
    rewards, or with equal ones, has advantage exactly 0. (Shao et al. 2024, DeepSeekMath, eq. 3.)
    """
    known = [r for r in rewards if r is not None]
    if not has_signal(rewards):
        return [0.0] * len(rewards)
    mean = math.fsum(known) / len(known)
    std = math.sqrt(math.fsum((r - mean) ** 2 for r in known) / (len(known) - 1))
    return [0.0 if r is None else (r - mean) / (std + EPSILON) for r in rewards]


def has_signal(rewards: Sequence[float | None]) -> bool:
    """Whether the known rewards of a group differ."""
    known = [r for r in rewards if r is not None]
    return len(known) > 1 and max(known) - min(known) > TOLERANCE


def weighted(advantages: Sequence[float], negative_weight: float) -> list[float]:
    """The advantages that the update learns from: those below 0 are scaled by `negative_weight`.

    A round's samples are reused over many steps and some come from inside the tree, so that the update is off-policy.
    There a failure teaches little and pushes hard (Arnal et al. 2025, "Asymmetric REINFORCE for off-policy
    reinforcement learning"): with 1, GRPO as published, the embedded default learned a third as much a round.
    """
    return [advantage if advantage > 0 else advantage * negative_weight for advantage in advantages]
