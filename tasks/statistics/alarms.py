"""Alarms of a run: signs in the metrics of its rounds that a person should look at it."""

from collections.abc import Mapping
from typing import Literal

from tasks.statistics.collapse import GENTLER, collapse_remarks
from tasks.statistics.divergence import divergence_remarks

Alarm = Literal["rewards.mislead", "policy.collapses"]

MASTERED = 0.9
"""pass@1 of a round's own samples from which completions are alike because they are right."""


def training_alarms(metrics: Mapping[str, Mapping[str, float]], rounds: int) -> dict[Alarm, list[str]]:
    """The remarks of each alarm. `metrics`: of a run's stages by their ids, `collect@1`; a missing one raises none.

    Rewards mislead where they rise while the policy gets worse. The policy collapses where its completions are hardly
    different in the last round, and not because nearly all are right; or where none is right any more.
    """
    rewards, dev = (
        {number: metrics[f"{stage}@{number}"] for number in range(1, rounds + 1) if metrics.get(f"{stage}@{number}")}
        for stage in ("reward", "validate")
    )
    last = {**metrics.get(f"collect@{rounds}", {}), **metrics.get(f"update@{rounds}", {})}
    mastered = rewards.get(rounds, {}).get("pass_at_1", 0.0) >= MASTERED
    collapses = [] if mastered else collapse_remarks(last)
    if rewards.get(rounds, {}).get("pass_at_1") == 0 and (before := rewards.get(1, {})).get("pass_at_1_low", 0.0) > 0:
        collapses.append(f"no completion is right, where {before['pass_at_1']:.0%} of round 1's were: {GENTLER}")
    return {
        "rewards.mislead": divergence_remarks(rewards, dev),
        "policy.collapses": [f"round {rounds}: {remark}" for remark in collapses],
    }
