"""Divergence of rewards from what is right: the mean reward rises while the policy gets worse."""

import math
from collections.abc import Mapping

from tasks.statistics.intervals import CHANCE


def divergence_remarks(rewards: Mapping[int, Mapping[str, float]], dev: Mapping[int, Mapping[str, float]]) -> list[str]:
    """A remark for each measure by which the policy got worse while the mean reward rose, both by more than chance.

    `rewards` holds the metrics of each round's rewards, `dev` those of each evaluation on dev problems, which may be
    none, in order; the first and the last are compared. Means of rewards are compared by `mean_reward_error`, pass@1 by
    its interval, as of different problems: with the same ones the difference has a smaller error, not a larger one.
    """
    first, last = (rewards[end(rewards)] if rewards else {} for end in (min, max))
    if "mean_reward_error" not in first or "mean_reward_error" not in last:
        return []
    rise = last["epoch/mean_reward"] - first["epoch/mean_reward"]
    if rise <= CHANCE * math.hypot(first["mean_reward_error"], last["mean_reward_error"]):
        return []
    rose = f"the mean reward rose from {first['epoch/mean_reward']:.3f} to {last['epoch/mean_reward']:.3f}"
    ends = {
        of: (measured[min(measured)], measured[max(measured)])
        for of, measured in (("its own samples", rewards), ("dev problems", dev))
        if len(measured) > 1
    }
    return [
        f"{rose}, while pass@1 of {of} fell from {before['pass_at_1']:.3f} to {after['pass_at_1']:.3f}, both by more "
        "than chance: the policy learns what is rewarded, not what is right; read its completions in run/page.html, "
        "and raise rewards.correctness over the other terms"
        for of, (before, after) in ends.items()
        if _fell(before, after)
    ]


def _fell(before: Mapping[str, float], after: Mapping[str, float]) -> bool:
    """Whether pass@1 is lower by more than CHANCE of the standard errors that its intervals have."""
    if "pass_at_1_low" not in before or "pass_at_1_high" not in after:
        return False
    # the ends that face each other; at 0 and 1 an interval is cut, which makes it too short there alone
    down, up = before["pass_at_1"] - before["pass_at_1_low"], after["pass_at_1_high"] - after["pass_at_1"]
    return before["pass_at_1"] - after["pass_at_1"] > math.hypot(down, up)
