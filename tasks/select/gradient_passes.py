"""Gradients of many rows, batch by batch: whole within a memory budget, or layer by layer."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from tasks.core.progress import show_progress
from tasks.errors import GraftError
from tasks.model.distributed.collectives import all_gather, in_step, local_part
from tasks.model.sample import Sample
from tasks.model.scoring.micro_batches import MicroBatch, make_micro_batches
from tasks.model.scoring.scorer import Scorer
from tasks.select.losses import Row, TokenLosses, row_of, summed_losses
from tasks.select.sample_gradients import SampleGradients, collect_gradients, lora_factors, stream_gradients

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")

RowNumbers = Callable[[Sequence[Sample], SampleGradients], "Tensor"]
"""B rows and their gradients for some LoRA factors → numbers [..., B]."""

BLOCK_ROWS = 64
"""Rows of a block, about: matrix products of only a few rows are bound by memory."""


@dataclass(frozen=True)
class GradientBlock:
    """Some rows and their gradients."""

    rows: list[Sample]
    own: SampleGradients  # of the measured loss: views of `matrix`
    scores: SampleGradients  # ∇ Σ_t log p_t; the same object without token losses
    matrix: "Tensor"  # [B, P]


class GradientPasses:
    """Iterable over the gradients of distinct rows; every iteration computes them again unless they are cached.

    They are ∇ Σ_t log p_t; or with token losses ∇ Σ_t l_t, and with `scores` both from one forward pass. Each sample
    has a row of its own, with the prompt unless that is constant: with a shared prompt its gradient could not be
    separated from the others'.
    """

    def __init__(
        self,
        scorer: Scorer,
        samples: Iterable[Sample],
        budget: int,
        groups_together: bool = False,
        token_losses: TokenLosses | None = None,
        scores: bool = False,
        shared: bool = True,
    ) -> None:
        """One row for all samples that are equal; `budget` bytes of gradients may be in memory at once.

        In several processes each computes its own share of the rows, unless `shared` is False. Raises GraftError where
        `groups_together` asks for the rows of one problem in one block and they do not fit.
        """
        self._token_losses, self._count = token_losses, 2 if token_losses and scores else 1
        rows = list({self.row_of(s): s for s in samples}.values())
        self._spare = make_micro_batches(scorer.row_layout, rows[:1], scorer.tokens)
        rows = self._own(rows, groups_together) if shared else rows
        each = _bytes(scorer.model) * self._count
        most = max(budget // each, 1)
        self.budget, self.shared = budget, shared
        self.fits = all(all_gather(each * len(rows) <= budget))  # the same in all processes
        self._scorer = scorer
        self._micro_batches = make_micro_batches(scorer.row_layout, rows, scorer.tokens)
        self._batches = (
            _by_group(scorer, rows, most) if groups_together else _blocks(_cut(self._micro_batches, most), most)
        )
        self._names = {self.row_of(s) for s in rows}
        self._cached: list[GradientBlock] = []

    def row_of(self, sample: Sample) -> Row:
        """Samples of one row have one gradient."""
        return (*row_of(sample)[:2], sample.member) if self._token_losses else row_of(sample)

    def _own(self, rows: Sequence[Sample], groups_together: bool) -> list[Sample]:
        """This process's share of the rows, in their order: about as many tokens as each other process has."""
        units = [s.problem_id if groups_together else self.row_of(s) for s in rows]
        sizes: dict[str | Row, int] = dict.fromkeys(units, 0)
        for s, unit in zip(rows, units, strict=True):
            sizes[unit] += len(s.prompt) + len(s.completion)
        own = set(local_part(sorted(sizes, key=lambda unit: sizes[unit])))
        return [s for s, unit in zip(rows, units, strict=True) if unit in own]

    def cache(self) -> None:
        """Compute all of them now if they fit in the budget."""
        if self.fits and not self._cached:
            self._cached = list(self)

    def has_cached(self, samples: Iterable[Sample]) -> bool:
        """Whether the gradients of all these samples are cached."""
        rows = {self.row_of(s) for s in samples}
        return not rows or (bool(self._cached) and rows <= self._names)

    def __iter__(self) -> Iterator[GradientBlock]:
        if self._cached:
            yield from self._cached
            return
        steps = self._steps([batch for batches in self._batches for batch in batches])
        for batches in _progress(self._batches):
            parts = [self._collect(next(steps)[0]) for _ in batches]
            kinds = [_joined(kind) for kind in zip(*parts, strict=True)]
            yield GradientBlock([s for batch in batches for s in batch.samples], kinds[0][0], kinds[-1][0], kinds[0][1])
        for batch, _ in steps:  # that do not count
            self._collect(batch)

    def _collect(self, batch: MicroBatch) -> list[SampleGradients]:
        return collect_gradients(self._scorer.model, partial(self._values, batch, self._count), self._count)

    def _steps(self, batches: Sequence[MicroBatch]) -> Iterator[tuple[MicroBatch, bool]]:
        return in_step(self._scorer.model, batches, self._spare[0] if self._spare else None)

    def summed(self, numbers: RowNumbers) -> "Iterator[tuple[list[Sample], Tensor]]":
        """Rows, and the sum over the LoRA factors of the numbers [..., B] of each factor's gradients.

        The gradients of one factor at a time are in memory, besides those that are cached.
        """
        if self._cached:
            yield from ((part.rows, numbers(part.rows, part.own)) for part in self._cached)
            return
        steps = self._steps(self._micro_batches)
        for batch in _progress(self._micro_batches):
            next(steps)
            yield batch.samples, self._summed(batch, numbers)
        for batch, _ in steps:  # that do not count
            self._collect(batch)

    def _summed(self, batch: MicroBatch, numbers: RowNumbers) -> "Tensor":
        parts: list[Tensor] = []

        def accumulate(name: str, own: "Tensor") -> None:
            parts.append(numbers(batch.samples, {name: own}))

        stream_gradients(self._scorer.model, partial(self._values, batch, 1), [accumulate])
        return sum(parts[1:], parts[0])

    def _values(self, batch: MicroBatch, count: int) -> "list[Tensor]":
        """`count` kinds of values, each [B]."""
        if self._token_losses is None:
            return [self._sums(batch)]
        scored = self._scorer.score(batch)
        return [summed_losses(batch.samples, scored, self._token_losses), scored.logprobs.sum(1)][:count]

    def _sums(self, batch: MicroBatch) -> "Tensor":
        return self._scorer.score(batch).logprobs.sum(1)


def _cut(batches: Sequence[MicroBatch], most: int) -> list[MicroBatch]:
    """Micro-batches of at most `most` samples."""
    return [
        MicroBatch(batch.layout, [[s] for s in batch.samples[start : start + most]])
        for batch in batches
        for start in range(0, len(batch.samples), most)
    ]


def _blocks(batches: Sequence[MicroBatch], most: int) -> list[list[MicroBatch]]:
    found: list[list[MicroBatch]] = []
    size, room = 0, _room(most)
    for batch in batches:
        if not found or size + len(batch.samples) > room:
            found.append([])
            size = 0
        found[-1].append(batch)
        size += len(batch.samples)
    return found


def _room(most: int) -> int:
    """Rows of a block, where `most` may be in memory at once: joining its batches copies them."""
    return min(BLOCK_ROWS, most // 8)


def _by_group(scorer: Scorer, rows: Sequence[Sample], most: int) -> list[list[MicroBatch]]:
    found: list[list[Sample]] = [[]]
    room = _room(most)
    for name, members in groupby(rows, key=lambda s: s.problem_id):
        group = list(members)
        if len(group) > most:
            raise GraftError(
                f"influence.memory_budget: has room for the gradients of {most} samples, but problem {name!r} has "
                f"{len(group)}, which influence.fdr_control needs at once; raise it, or switch that off"
            )
        if len(found[-1]) + len(group) > room:
            found.append([])
        found[-1] += group
    return [make_micro_batches(scorer.row_layout, batch, scorer.tokens) for batch in found if batch]


def _joined(parts: Sequence[SampleGradients]) -> "tuple[SampleGradients, Tensor]":
    """All rows in one matrix [B, P], and each factor's part of it."""
    import torch

    rows = [torch.cat([own.flatten(1) for own in part.values()], 1) for part in parts]
    matrix = rows[0] if len(rows) == 1 else torch.cat(rows)
    shapes = {name: own.shape[1:] for name, own in parts[0].items()}
    pieces = torch.split(matrix, [shape.numel() for shape in shapes.values()], 1)
    return {name: own.view(-1, *shape) for (name, shape), own in zip(shapes.items(), pieces, strict=True)}, matrix


def _bytes(model: Any) -> int:
    """Of the gradient of one sample."""
    weights = [module.weight for module in lora_factors(model).values()]
    return sum(weight.numel() * max(weight.itemsize, 4) for weight in weights)


def _progress(batches: Sequence[T]) -> Iterable[T]:
    """The batches, with their progress displayed."""
    with show_progress("influence", len(batches), "batches") as advance:
        for batch in batches:
            yield batch
            advance()
