"""The optimiser steps of an update: the problems of each step, in order."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tasks.model.sample import Sample
from tasks.seeds import derive_seed


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
