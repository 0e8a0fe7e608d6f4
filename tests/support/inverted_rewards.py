"""Rewards of which a share is wrong."""

from collections.abc import Sequence

from tasks.seeds import derive_seed
from tasks.trajectories import RewardedTrajectory


def inverted(rewarded: Sequence[RewardedTrajectory], share: int, *labels: int) -> list[RewardedTrajectory]:
    """The completions; of `share` per cent of the distinct ones of each problem with 1 minus their reward."""
    changed = []
    for own in rewarded:
        records = []
        for member, record in zip(own.trajectory.members, own.rewards, strict=True):
            flip = derive_seed("inverted", *labels, own.trajectory.problem_id, member.code) % 100 < share
            reward = 1 - record.reward if flip and record.reward is not None else record.reward
            records.append(record.model_copy(update={"reward": reward}))
        changed.append(own._replace(rewards=records))
    return changed
