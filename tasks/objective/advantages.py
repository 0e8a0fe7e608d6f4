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
its group. A user's function is one more row: what it gives for a reward that failed counts as 0.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from statistics import fmean

from tasks.errors import GraftError
from tasks.params.fields import Baseline
from tasks.sources.user_code import call, load

Groups = Sequence[Sequence[float | None]]
"""The rewards of a split's groups; None = failed."""

Advantages = Callable[[Groups], list[list[float]]]
"""Rewards [n][G] → advantages [n][G]."""

EPSILON = 1e-4
"""Added to the standard deviation, as in TRL 1.16."""

TOLERANCE = 1e-9
"""Rewards that differ by no more are equal: their spread is rounding, and dividing by it would invent a signal."""


def advantages_of(rule: Baseline, groups: Groups) -> list[list[float]]:
    """The advantage of each member of each of a round's groups; rewards [n][G] → [n][G].

    Raises GraftError where a user's function gives other numbers than one for each reward.
    """
    if rule in ADVANTAGES:
        return ADVANTAGES[rule](groups)
    returned = call("update.advantages", rule, load("update.advantages", rule), [[*rewards] for rewards in groups])
    try:
        return [
            [0.0 if r is None else _finite(a) for r, a in zip(rewards, advantages, strict=True)]
            for rewards, advantages in zip(groups, returned, strict=True)
        ]
    except (TypeError, ValueError) as error:
        raise GraftError(
            f"update.advantages: {rule}: {error}; return a list for each group, with a finite number for each reward"
        ) from error


def has_signal(rewards: Iterable[float | None]) -> bool:
    """Whether the known rewards of a group differ."""
    known = known_rewards(rewards)
    return len(known) > 1 and max(known) - min(known) > TOLERANCE


def single_reward_groups(groups: Sequence[Sequence[float | None]]) -> int:
    """The number of groups with a single known reward, whose baseline is the batch."""
    return sum(len(known_rewards(rewards)) == 1 for rewards in groups)


def known_rewards(rewards: Iterable[float | None]) -> list[float]:
    """The rewards that did not fail."""
    return [r for r in rewards if r is not None]


def standard_deviation(values: Sequence[float]) -> float:
    """The standard deviation with ddof 1; 0 of fewer than two values."""
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


def _finite(advantage: float) -> float:
    if not math.isfinite(advantage):
        raise ValueError(f"an advantage is {advantage}")
    return float(advantage)


Divisor = Callable[[Sequence[float], Sequence[float]], float]
"""(known rewards of a group, those of the batch) → what r - mean is divided by."""


def _compared(divisor: Divisor, groups: Groups, batch_mean: bool = False) -> list[list[float]]:
    """(r - mean) / divisor of each group."""
    batch = known_rewards(r for rewards in groups for r in rewards)
    advantages = []
    for rewards in groups:
        compared: Sequence[float] = known_rewards(rewards)
        if len(compared) == 1 or batch_mean:
            compared = batch
        if has_signal(compared):
            mean, scale = fmean(compared), divisor(compared, batch)
            advantages.append([0.0 if r is None else (r - mean) / scale for r in rewards])
        else:
            advantages.append([0.0] * len(rewards))
    return advantages


ADVANTAGES: dict[str, Advantages] = {
    "group": partial(_compared, lambda group, _: standard_deviation(group) + EPSILON),
    "batch": partial(_compared, lambda _, batch: standard_deviation(batch) + EPSILON),
    "global": partial(_compared, lambda _, batch: standard_deviation(batch) + EPSILON, batch_mean=True),
    "none": partial(_compared, lambda *_: 1.0),
    # r - mean of the others = (r - mean) · n / (n - 1)
    "leave_one_out": partial(_compared, lambda group, _: (len(group) - 1) / len(group)),
}
"""Value of `update.advantages` → function of a split's groups."""
