"""Gradients of many rows, batch by batch, within a memory budget."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tasks.core.progress import show_progress
from tasks.model.distributed.collectives import all_gather, all_reduce_sum, in_step, local_part
from tasks.model.sample import Sample
from tasks.model.scoring.micro_batches import MicroBatch, make_micro_batches
from tasks.model.scoring.scorer import Scorer
from tasks.select.gradient_algebra import weighted_sum
from tasks.select.losses import Row, TokenLosses, row_of, summed_losses
from tasks.select.sample_gradients import Direction, SampleGradients, collect_gradients, lora_factors

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")

BLOCK_ROWS = 64
"""Rows of a block, about: matrix products of only a few rows are bound by memory."""


@dataclass(frozen=True)
class GradientBlock:
    """Some rows and their gradients."""

    rows: list[Sample]
    own: SampleGradients  # views of `matrix`
    matrix: "Tensor"  # [B, P]


class GradientPasses:
    """Iterable over the gradients of distinct rows; every iteration computes them again unless they are cached.

    They are ∇ Σ_t log p_t, or with token losses ∇ Σ_t l_t. Each sample has a row of its own, with the prompt unless
    that is constant: with a shared prompt its gradient could not be separated from the others'.
    """

    def __init__(
        self,
        scorer: Scorer,
        samples: Iterable[Sample],
        budget: int,
        token_losses: TokenLosses | None = None,
        shared: bool = True,
    ) -> None:
        """One row for all samples that are equal; `budget` bytes of gradients may be in memory at once.

        In several processes each computes its own share of the rows, unless `shared` is False.
        """
        self._scorer, self._token_losses = scorer, token_losses
        self.budget, self._shared = budget, shared
        rows = list({self.row_of(s): s for s in samples}.values())
        self._spare = make_micro_batches(scorer.row_layout, rows[:1], scorer.tokens)
        rows = self._own(rows) if shared else rows
        each = _bytes(scorer.model)
        most = max(budget // each, 1)
        self.fits = all(all_gather(each * len(rows) <= budget))  # the same in all processes
        batches = make_micro_batches(scorer.row_layout, rows, scorer.tokens)
        self._batches = _blocks(_cut(batches, most), most)
        self._names = {self.row_of(s) for s in rows}
        self._cached: list[GradientBlock] = []

    def row_of(self, sample: Sample) -> Row:
        """Samples of one row have one gradient."""
        return (*row_of(sample)[:2], sample.member) if self._token_losses else row_of(sample)

    def _own(self, rows: Sequence[Sample]) -> list[Sample]:
        """This process's share of the rows, in their order: about as many tokens as each other process has."""
        order = sorted(range(len(rows)), key=lambda place: len(rows[place].prompt) + len(rows[place].completion))
        return [rows[place] for place in sorted(local_part(order))]

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
        spare = self._spare[0] if self._spare else None
        steps = in_step(self._scorer.model, [batch for batches in self._batches for batch in batches], spare)
        for batches in _progress(self._batches):
            parts = [self._collect(next(steps)[0]) for _ in batches]
            yield _joined([s for batch in batches for s in batch.samples], parts)
        for batch, _ in steps:  # that do not count
            self._collect(batch)

    def _collect(self, batch: MicroBatch) -> SampleGradients:
        return collect_gradients(self._scorer.model, partial(self._values, batch))

    def _values(self, batch: MicroBatch) -> "Tensor":
        """Of each of B samples what its gradient is of, [B]."""
        scored = self._scorer.score(batch)
        if self._token_losses is None:
            return scored.logprobs.sum(1)
        return summed_losses(batch.samples, scored, self._token_losses)

    def weights_of(self, block: GradientBlock, weights: Mapping[Row, float]) -> "Tensor":
        """The weights [B] of a block's rows, 0 of those that have none; in float64."""
        import torch

        return torch.tensor([weights.get(self.row_of(s), 0.0) for s in block.rows], dtype=torch.float64)

    def sum_by_row(self, samples: Sequence[Sample], numbers: Sequence[float]) -> dict[Row, float]:
        """The sum of the numbers of each row's samples."""
        sums = dict[Row, float]()
        for sample, number in zip(samples, numbers, strict=True):
            sums[self.row_of(sample)] = sums.get(self.row_of(sample), 0.0) + number
        return sums

    def gradient(self, weights: Mapping[Row, float]) -> Direction:
        """Σ weight · gradient over all rows, of all processes; one pass over them."""
        return self.add_up(weighted_sum(block.own, self.weights_of(block, weights)) for block in self)

    def add_up(self, parts: Iterable[Direction]) -> Direction:
        """The sum of the parts, and over the processes if each has a share; 0 of no parts."""
        import torch

        total: dict[str, Tensor] = {}
        for name, module in lora_factors(self._scorer.model).items():
            wide = torch.promote_types(module.weight.dtype, torch.float32)
            total[name] = torch.zeros_like(module.weight, dtype=wide)
        for part in parts:
            for name, values in part.items():
                total[name] = total[name] + values
        return dict(zip(total, all_reduce_sum(list(total.values())), strict=True)) if self._shared else total


def _cut(batches: Sequence[MicroBatch], most: int) -> list[MicroBatch]:
    """Micro-batches of at most `most` samples."""
    return [
        MicroBatch(batch.layout, [[s] for s in batch.samples[start : start + most]])
        for batch in batches
        for start in range(0, len(batch.samples), most)
    ]


def _blocks(batches: Sequence[MicroBatch], most: int) -> list[list[MicroBatch]]:
    """Micro-batches in blocks, where `most` rows may be in memory at once: joining a block's batches copies them."""
    blocks: list[list[MicroBatch]] = []
    size, room = 0, min(BLOCK_ROWS, most // 8)
    for batch in batches:
        if not blocks or size + len(batch.samples) > room:
            blocks.append([])
            size = 0
        blocks[-1].append(batch)
        size += len(batch.samples)
    return blocks


def _joined(samples: list[Sample], parts: Sequence[SampleGradients]) -> GradientBlock:
    """All rows in one matrix [B, P], and each factor's part of it."""
    import torch

    rows = [torch.cat([own.flatten(1) for own in part.values()], 1) for part in parts]
    matrix = rows[0] if len(rows) == 1 else torch.cat(rows)
    shapes = {name: own.shape[1:] for name, own in parts[0].items()}
    pieces = torch.split(matrix, [shape.numel() for shape in shapes.values()], 1)
    views = {name: own.view(-1, *shape) for (name, shape), own in zip(shapes.items(), pieces, strict=True)}
    return GradientBlock(samples, views, matrix)


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
