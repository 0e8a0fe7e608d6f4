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
