"""What the select stage would have written of a trajectory."""

from collections.abc import Sequence

from tasks.records import RewardedTrajectory, Selected


def selected(trajectory: RewardedTrajectory, advantages: Sequence[float], keep: bool = True) -> list[Selected]:
    """A line for each member; those without a signal are not selected, without `keep` none is."""
    return [
        Selected(
            problem_id=trajectory.problem_id,
            member=member,
            workflow_id=trajectory.workflow_ids[member],
            advantage=advantage,
            influence=0.1,
            gradient_norm=1.0,
            selected=keep and advantage != 0,
        )
        for member, advantage in enumerate(advantages)
    ]


def selected_by_influence(trajectory: RewardedTrajectory, influences: Sequence[float | None]) -> list[Selected]:
    """A line for each member; those with positive influence are selected, None was not measured."""
    lines = selected(trajectory, [1.0] * len(influences))
    measured = [
        {"influence": x, "gradient_norm": None if x is None else 1.0, "selected": (x or 0) > 0} for x in influences
    ]
    return [line.model_copy(update=own) for line, own in zip(lines, measured, strict=True)]
