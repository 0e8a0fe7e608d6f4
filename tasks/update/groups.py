"""The groups of an update: each problem's selected samples and denominator."""

from collections.abc import Sequence

from tasks.errors import GraftError
from tasks.objective.groups import SampleGroup
from tasks.objective.samples import merge_equal_samples
from tasks.objective.token_weights import TokenWeights
from tasks.records.selection import Selected
from tasks.update.step_plan import UpdateGroup


class SelectionError(GraftError):
    """A selection that is of other completions."""


def selected_groups(
    groups: Sequence[SampleGroup], selection: Sequence[Selected], averaging: TokenWeights
) -> list[UpdateGroup]:
    """The update's view of each group. Raises SelectionError where it is of other groups."""
    lines = {(line.problem_id, line.member): line for line in selection}
    members = {(g.problem_id, member): name for g in groups for member, name in enumerate(g.workflow_ids)}
    if {key: line.workflow_id for key, line in lines.items()} != members:
        raise SelectionError("does not name the samples of trajectories.jsonl")
    return [
        selected_group(g, [lines[g.problem_id, member].selected for member in range(len(g.samples))], averaging)
        for g in groups
    ]


def selected_group(group: SampleGroup, selected: Sequence[bool], averaging: TokenWeights) -> UpdateGroup:
    """The group with its selected samples [G].

    The denominator counts the samples that are learned from and those without signal (advantage 0), but no sample that
    is rejected or whose reward failed.
    """
    learned = [s for s, kept in zip(group.samples, selected, strict=True) if kept and s.has_signal]
    rewarded = zip(group.samples, group.advantages, group.baseline_rewards, strict=True)
    no_signal = [s for s, advantage, reward in rewarded if reward is not None and advantage == 0 and not s.has_signal]
    return UpdateGroup(
        group.problem_id,
        merge_equal_samples(learned),
        averaging.denominator([len(s.completion) for s in [*learned, *no_signal]]),
        rewards=tuple(group.rewards),
        lengths=tuple(len(s.completion) for s in group.samples),
        truncated=sum(group.truncated),
        no_signal=not any(group.advantages),
    )
