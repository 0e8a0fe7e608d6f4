"""The optimiser steps of an update: each problem's selected samples and denominator, and the problems of each step."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tasks.errors import GraftError
from tasks.model.sample import Sample
from tasks.objective.groups import SampleGroup, merge_equal_samples
from tasks.objective.token_weights import TokenWeights
from tasks.records.selection import Selected
from tasks.seeds import derive_seed


class SelectionError(GraftError):
    """A selection that is of other completions."""


@dataclass(frozen=True)
class UpdateGroup:
    """One problem in the update. `rewards` and `lengths` are of all its completions [G], for metrics only."""

    problem_id: str
    samples: list[Sample]  # that the update learns from
    denominator: int  # its contribution to that of the step
    rewards: tuple[float | None, ...] = ()  # None = failed, or left out of the baseline
    lengths: tuple[int, ...] = ()  # in tokens
    truncated: int = 0  # completions that were cut at their length limit
    no_signal: bool = False  # no completion has an advantage other than 0


@dataclass(frozen=True)
class Step:
    """The problems of one optimiser step; at least one of them has a sample."""

    epoch: int  # from 1
    groups: list[UpdateGroup]

    @property
    def samples(self) -> list[Sample]:
        return [s for g in self.groups for s in g.samples]


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


def plan_steps(groups: Sequence[UpdateGroup], epochs: int, prompts_per_step: int, seed: int) -> tuple[list[Step], int]:
    """The steps of all epochs, and how many are skipped because nothing of their problems is selected."""
    steps = [
        Step(epoch + 1, step)
        for epoch in range(epochs)
        for step in steps_of_epoch(groups, prompts_per_step, seed, epoch)
    ]
    taken = [step for step in steps if step.samples]
    return taken, len(steps) - len(taken)


def steps_of_epoch(
    groups: Sequence[UpdateGroup], prompts_per_step: int, seed: int, epoch: int
) -> Iterator[list[UpdateGroup]]:
    """The groups in an order of their own for each epoch, in steps of nearly equal size, at most `prompts_per_step`."""
    order = sorted(groups, key=lambda g: derive_seed(seed, "step", epoch, g.problem_id))
    count = math.ceil(len(order) / prompts_per_step)
    for number in range(count):
        yield order[number * len(order) // count : (number + 1) * len(order) // count]
