"""Selection by the trusted rewards of the training samples themselves, which no run knows."""

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.model.policy import Policy
from tasks.objective.advantages import advantages_of
from tasks.objective.groups import SampleGroup
from tasks.params.params import Params
from tasks.select.select_samples import Selection, select_samples


def select_helpful(
    trusted: Mapping[str, Sequence[float]],
    policy: Policy,
    train: Sequence[SampleGroup],
    validation: Sequence[SampleGroup],
    params: Params,
    round: int,
    value_head: Any = None,
) -> Selection:
    """The samples of `train` whose advantage is above 0 by the trusted rewards, too.

    `trusted`: problem → the trusted rewards of its members. All else is as in a run.
    """
    selection = select_samples(policy, train, validation, params, round, value_head)
    names = [group.problem_id for group in train]
    advantages = dict(zip(names, advantages_of("group", [trusted[name] for name in names]), strict=True))
    lines = [
        line.model_copy(update={"selected": line.selected and advantages[line.problem_id][line.member] > 0})
        for line in selection.lines
    ]
    return Selection(lines, selection.metrics)
