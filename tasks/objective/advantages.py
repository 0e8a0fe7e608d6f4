"""Group-relative advantages: the reward of a completion compared with the other completions of its problem.

mean and std of a group are over its known rewards, std with ddof 1, all in float64:

    update.advantages   advantage                                from
    group             (r - mean) / (std + 1e-4)                DeepSeekMath, Shao et al. 2024, eq. 3
    batch             (r - mean) / (batch std + 1e-4)          TRL 1.16: the group's mean, the batch's std
    global            (r - batch mean) / (batch std + 1e-4)    REINFORCE++, Hu 2025 (arXiv 2501.03262): batch's both
    none              r - mean                                 Dr. GRPO, Liu et al. 2025
    leave_one_out     r - mean of the others                   RLOO, Ahmadian et al. 2024

The batch is all known rewards of the round's split. A reward that failed, None, has advantage 0 and leaves mean and
std. Where the known rewards of a group are equal, its advantages are exactly 0; with `global` only where those of the
batch are: a group that is always solved is above the batch's mean. A group with a single known reward uses the batch as
its group.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean

from tasks.params.fields import Baseline

EPSILON = 1e-4
"""Added to the standard deviation, as in TRL 1.16."""

TOLERANCE = 1e-9
"""Rewards that differ by no more are equal: their spread is rounding, and dividing by it would invent a signal."""


def advantages_of(rule: Baseline, groups: Sequence[Sequence[float | None]]) -> list[list[float]]:
    """The advantage of each member of each of a round's groups; rewards [n][G] → [n][G]."""
    batch = known_rewards(r for rewards in groups for r in rewards)
    return [_advantages(rule, rewards, batch) for rewards in groups]


def has_signal(rewards: Iterable[float | None]) -> bool:
    """Whether the known rewards of a group differ."""
    given = known_rewards(rewards)
    return len(given) > 1 and max(given) - min(given) > TOLERANCE


def single_reward_groups(groups: Sequence[Sequence[float | None]]) -> int:
    """The number of groups with a single known reward, whose baseline is the batch."""
    return sum(len(known_rewards(rewards)) == 1 for rewards in groups)


def known_rewards(rewards: Iterable[float | None]) -> list[float]:
    """The rewards that did not fail."""
    return [r for r in rewards if r is not None]


def _advantages(rule: Baseline, rewards: Sequence[float | None], batch: Sequence[float]) -> list[float]:
    given: Sequence[float] = known_rewards(rewards)
    if len(given) == 1 or rule == "global":
        given = batch
    if not has_signal(given):
        return [0.0] * len(rewards)
    mean, divisor = fmean(given), _divisor(rule, given, batch)
    return [0.0 if r is None else (r - mean) / divisor for r in rewards]


def _divisor(rule: Baseline, group: Sequence[float], batch: Sequence[float]) -> float:
    if rule == "group":
        return standard_deviation(group) + EPSILON
    if rule in ("batch", "global"):
        return standard_deviation(batch) + EPSILON
    # r - mean of the others = (r - mean) · n / (n - 1)
    return (len(group) - 1) / len(group) if rule == "leave_one_out" else 1.0


def standard_deviation(values: Sequence[float]) -> float:
    """With ddof 1; 0 of fewer than two values."""
    if len(values) < 2:
        return 0.0
    mean = fmean(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))


def scale_negatives(advantages: Sequence[float], negative_weight: float) -> list[float]:
    """The advantages that the update learns from: those below 0 are scaled by `negative_weight`.

    A round's samples are reused over many steps and some come from inside the tree, so that the update is off-policy.
    Failures then carry little information and large gradients (Arnal et al. 2025, "Asymmetric REINFORCE for off-policy
    reinforcement learning"): with 1, GRPO as published, the embedded default learned a third as much a round.
    """
    return [advantage if advantage > 0 else advantage * negative_weight for advantage in advantages]
