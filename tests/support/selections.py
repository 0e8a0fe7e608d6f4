"""What the select stage would have written of a trajectory."""

from collections.abc import Sequence

from tasks.records.selection import Selected
from tasks.trajectories import RewardedTrajectory


def selected(rewarded: RewardedTrajectory, advantages: Sequence[float], keep: bool = True) -> list[Selected]:
    """A line for each member; those without a signal are not selected, without `keep` none is."""
    return [
        Selected(
            problem_id=reward.problem_id,
            member=reward.member,
            workflow_id=reward.workflow_id,
            advantage=advantage,
            influence=0.1,
            gradient_norm=1.0,
            selected=keep and advantage != 0,
        )
        for reward, advantage in zip(rewarded.rewards, advantages, strict=True)
    ]


def selected_by_influence(rewarded: RewardedTrajectory, influences: Sequence[float | None]) -> list[Selected]:
    """A line for each member; those with positive influence are selected, None was not measured."""
    lines = selected(rewarded, [1.0] * len(influences))
    measured = [
        {"influence": x, "gradient_norm": None if x is None else 1.0, "selected": (x or 0) > 0} for x in influences
    ]
    return [line.model_copy(update=own) for line, own in zip(lines, measured, strict=True)]
