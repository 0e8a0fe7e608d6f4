"""Selection by the trusted rewards of the training samples themselves, which no run knows."""

from collections.abc import Mapping, Sequence

from tasks.objective.advantages import advantages_of
from tasks.params.params import Params
from tasks.round_start import Models
from tasks.select.select_samples import HeldOut, Selection, select_samples
from tasks.trajectories import RewardedTrajectory


def select_helpful(
    trusted: Mapping[str, Sequence[float]],
    models: Models,
    train: Sequence[RewardedTrajectory],
    held_out: HeldOut,
    params: Params,
    round: int,
) -> Selection:
    """The samples of `train` whose advantage is above 0 by the trusted rewards, too.

    `trusted`: problem → the trusted rewards of its members. All else is as in a run.
    """
    selection = select_samples(models, train, held_out, params, round)
    names = [own.trajectory.problem_id for own in train]
    advantages = dict(zip(names, advantages_of("group", [trusted[name] for name in names]), strict=True))
    lines = [
        line.model_copy(update={"selected": line.selected and advantages[line.problem_id][line.member] > 0})
        for line in selection.lines
    ]
    return Selection(lines, selection.metrics)
