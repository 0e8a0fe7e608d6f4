"""Score gradients of many rows, in as much memory as they may take."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from tasks.errors import GraftError
from tasks.influence.sample_gradients import SampleGradients, lora_factors, sample_gradients
from tasks.policy.packing import MicroBatch, packed
from tasks.policy.processes import gathered, share
from tasks.policy.samples import Sample
from tasks.policy.scorer import Scorer

if TYPE_CHECKING:
    from torch import Tensor

Row = tuple[str, tuple[int, ...]]
"""Problem and completion: samples that share both have one score gradient."""


def row_of(sample: Sample) -> Row:
    """What the sample's score gradient depends on."""
    return sample.problem_id, sample.completion


class Passes:
    """Score gradients of distinct rows, batch by batch, each time that one goes through them.

    Each sample has a padded row of its own: with a shared prompt its gradient could not be told from the others'.
    """

    def __init__(
        self,
        scorer: Scorer,
        samples: Iterable[Sample],
        budget: int,
        whole_groups: bool = False,
        shared: bool = True,
    ) -> None:
        """One row for all samples that are equal; `budget` bytes may be held at once.

        In several processes each goes through its own share of the rows, unless they are not to be `shared`. Raises
        GraftError where the rows of one problem are to be in one batch, and do not fit.
        """
        rows = list({row_of(s): s for s in samples}.values())
        rows = _own(rows, whole_groups) if shared else rows
        each = _bytes(scorer.model)
        most = max(budget // each, 1)
        self.budget = budget
        self.fit = all(gathered(each * len(rows) <= budget))  # the same in all processes
        self._scorer = scorer
        self._batches = _by_group(scorer, rows, most) if whole_groups else _cut(scorer, rows, most)
        self._kept: list[tuple[list[Sample], SampleGradients]] = []

    def keep(self) -> None:
        """Compute them now if all fit: going through them costs nothing then."""
        if self.fit:
            self._kept = list(self)

    def __iter__(self) -> Iterator[tuple[list[Sample], SampleGradients]]:
        """Rows, and ∇ Σ_t log p_t of each."""
        if self._kept:
            yield from self._kept
            return
        for batches in _progress(self._batches):
            parts = [sample_gradients(self._scorer.model, partial(self._sums, batch)) for batch in batches]
            yield [s for batch in batches for s in batch.samples], _joined(parts)

    def _sums(self, batch: MicroBatch) -> "Tensor":
        return self._scorer.score(batch).logprobs.sum(1)


def _own(rows: Sequence[Sample], whole_groups: bool) -> list[Sample]:
    """This process's share of the rows, in their order: about as many tokens as each other process has."""
    units = [s.problem_id if whole_groups else row_of(s) for s in rows]
    sizes: dict[str | Row, int] = dict.fromkeys(units, 0)
    for s, unit in zip(rows, units, strict=True):
        sizes[unit] += len(s.prompt) + len(s.completion)
    own = set(share(sorted(sizes, key=lambda unit: sizes[unit])))
    return [s for s, unit in zip(rows, units, strict=True) if unit in own]


def _cut(scorer: Scorer, rows: Sequence[Sample], most: int) -> list[list[MicroBatch]]:
    return [
        [MicroBatch("rows", batch.groups[start : start + most])]
        for batch in packed("rows", rows, scorer.tokens)
        for start in range(0, len(batch.groups), most)
    ]


def _by_group(scorer: Scorer, rows: Sequence[Sample], most: int) -> list[list[MicroBatch]]:
    found: list[list[Sample]] = [[]]
    for name, members in groupby(rows, key=lambda s: s.problem_id):
        group = list(members)
        if len(group) > most:
            raise GraftError(
                f"influence.memory_budget: has room for the gradients of {most} samples, but problem {name!r} has "
                f"{len(group)} and influence.leave_group_out needs them at once; raise it"
            )
        if len(found[-1]) + len(group) > most:
            found.append([])
        found[-1] += group
    return [packed("rows", batch, scorer.tokens) for batch in found if batch]


def _joined(parts: Sequence[SampleGradients]) -> SampleGradients:
    import torch

    return parts[0] if len(parts) == 1 else {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _bytes(model: Any) -> int:
    """Of the gradient of one sample."""
    weights = [module.weight for module in lora_factors(model).values()]
    return sum(weight.numel() * max(weight.itemsize, 4) for weight in weights)


def _progress(batches: Sequence[list[MicroBatch]]) -> Iterable[list[MicroBatch]]:
    """The batches, with a bar on a terminal."""
    from rich.console import Console
    from rich.progress import track

    return track(
        batches, description="influence", console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True
    )
