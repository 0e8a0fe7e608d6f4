"""Gradients of many rows, batch by batch: whole within a memory budget, or layer by layer."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from tasks.core.progress import show_progress
from tasks.model.distributed.collectives import all_gather, all_reduce_sum, in_step, local_part
from tasks.model.sample import Sample
from tasks.model.scoring.micro_batches import MicroBatch, make_micro_batches
from tasks.model.scoring.scorer import Scorer
from tasks.select.losses import GradientRow, TokenLossFunction, row_of, sum_by_row, summed_losses
from tasks.select.sample_gradients import (
    Direction,
    SampleGradients,
    collect_gradients,
    lora_factors,
    stream_gradients,
    weighted_sum,
)

T = TypeVar("T")

LayerVisit = Callable[[Sequence[Sample], SampleGradients], None]
"""Called with B rows and their gradients for some LoRA factors."""

BLOCK_ROWS = 64
"""Rows of a block, about: matrix products of only a few rows are bound by memory."""


@dataclass(frozen=True)
class GradientBlock:
    """Some rows and their gradients."""

    rows: list[Sample]
    gradients: SampleGradients  # views of `matrix`
    matrix: Tensor  # [B, P]


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
        token_losses: TokenLossFunction | None = None,
        shared: bool = True,
    ) -> None:
        """One row for all samples that are equal; `budget` bytes of gradients may be in memory at once.

        In several processes each computes its own share of the rows, unless `shared` is False.
        """
        self._scorer, self.token_losses = scorer, token_losses
        self.budget, self._shared = budget, shared
        rows = list({self.row_of(s): s for s in samples}.values())
        # For a sharded base, whose processes have to run the model equally often (`in_step`).
        self._spare = make_micro_batches(scorer.row_layout, rows[:1], scorer.tokens)
        rows = self._local(rows) if shared else rows
        weights = [module.weight for module in lora_factors(scorer.model).values()]
        # Gradients have 32 bits at least, whatever the weights have.
        row_bytes = sum(weight.numel() * max(weight.itemsize, 4) for weight in weights)
        most = max(budget // row_bytes, 1)
        self.fits = all(all_gather(row_bytes * len(rows) <= budget))  # the same in all processes
        self._micro_batches = make_micro_batches(scorer.row_layout, rows, scorer.tokens)
        self._batches = _blocks(self._micro_batches, most)
        self._cached: list[GradientBlock] = []

    def row_of(self, sample: Sample) -> GradientRow:
        """Samples of one row have one gradient."""
        return (*row_of(sample)[:2], sample.member) if self.token_losses else row_of(sample)

    def _local(self, rows: Sequence[Sample]) -> list[Sample]:
        """This process's share of the rows, in their order: about as many tokens as each other process has."""
        order = sorted(range(len(rows)), key=lambda place: len(rows[place].prompt) + len(rows[place].completion))
        return [rows[place] for place in sorted(local_part(order))]

    def has(self, samples: Iterable[Sample]) -> bool:
        """Whether the cached rows are those of these samples."""
        cached = {self.row_of(s) for block in self._cached for s in block.rows}
        return cached == {self.row_of(s) for s in samples}

    def cache(self) -> None:
        """Compute all of them now if they fit in the budget."""
        if self.fits and not self._cached:
            self._cached = list(self)

    def __iter__(self) -> Iterator[GradientBlock]:
        if self._cached:
            yield from self._cached
            return
        steps = self._steps([batch for batches in self._batches for batch in batches])
        for batches in _progress(self._batches):
            parts = [self._collect(next(steps)[0]) for _ in batches]
            yield _joined([s for batch in batches for s in batch.samples], parts)
        for batch, _ in steps:  # those that do not count
            self._collect(batch)

    def by_layer(self, visit: LayerVisit) -> Iterator[list[Sample]]:
        """The rows of one batch after the other, each once `visit` had their gradients.

        The gradients of one factor at a time are in memory, besides those that are cached.
        """
        if self._cached:
            for block in self._cached:
                visit(block.rows, block.gradients)
                yield block.rows
            return
        steps = self._steps(self._micro_batches)
        for batch in _progress(self._micro_batches):
            next(steps)
            rows = batch.samples
            stream_gradients(
                self._scorer.model,
                partial(self._values, batch),
                lambda name, gradients, rows=rows: visit(rows, {name: gradients}),  # type: ignore[misc]
            )
            yield rows
        for batch, _ in steps:  # that do not count
            self._collect(batch)

    def _steps(self, batches: Sequence[MicroBatch]) -> Iterator[tuple[MicroBatch, bool]]:
        return in_step(self._scorer.model, batches, self._spare[0] if self._spare else None)

    def _collect(self, batch: MicroBatch) -> SampleGradients:
        return collect_gradients(self._scorer.model, partial(self._values, batch))

    def _values(self, batch: MicroBatch) -> Tensor:
        """The numbers [B] of B samples whose gradients are asked for: Σ log p, or Σ of the token losses."""
        scored = self._scorer.score(batch)
        if self.token_losses is None:
            return scored.logprobs.sum(1)
        return summed_losses(batch.samples, scored, self.token_losses)

    def sum_by_row(self, samples: Sequence[Sample], numbers: Sequence[float]) -> dict[GradientRow, float]:
        """The sum of the numbers of each row's samples."""
        return sum_by_row(self.row_of, samples, numbers)

    def gradient(self, weights: Mapping[GradientRow, float]) -> Direction:
        """Σ weight · gradient over all rows, of all processes; one pass over them."""
        total = GradientSum(self, weights)
        for _ in self.by_layer(total.add):
            pass
        return total.gathered()

    def add_up(self, part: Direction) -> Direction:
        """The part, 0 for the factors that it lacks, or its sum over the processes if each has a share."""
        total: dict[str, Tensor] = {}
        for name, module in lora_factors(self._scorer.model).items():
            wide = torch.promote_types(module.weight.dtype, torch.float32)
            total[name] = torch.zeros_like(module.weight, dtype=wide)
        for name, values in part.items():
            total[name] = total[name] + values
        return dict(zip(total, all_reduce_sum(list(total.values())), strict=True)) if self._shared else total


class GradientSum:
    """Σ weight · g over the rows that a pass has computed."""

    def __init__(self, passes: GradientPasses, weights: Mapping[GradientRow, float]) -> None:
        """`weights` of the rows; 0 of those that it lacks."""
        self._parts: dict[str, Tensor] = {}
        self._passes, self._weights = passes, weights
        self._rows: Sequence[Sample] | None = None  # of the last call, whose weights are on the device

    def add(self, rows: Sequence[Sample], gradients: SampleGradients) -> None:
        """Add the gradients of B rows for some factors."""
        if rows is not self._rows:  # once for all factors: a copy to a card waits for it
            numbers = [self._weights.get(self._passes.row_of(s), 0.0) for s in rows]
            device = next(iter(gradients.values())).device
            self._rows, self._row_weights = rows, torch.tensor(numbers, dtype=torch.float64, device=device)
        for name, part in weighted_sum(gradients, self._row_weights).items():
            self._parts[name] = self._parts[name] + part if name in self._parts else part

    def gathered(self) -> Direction:
        """The sum, over the processes if each has a share of the rows."""
        return self._passes.add_up(self._parts)


def _blocks(batches: Sequence[MicroBatch], most: int) -> list[list[MicroBatch]]:
    """Micro-batches in blocks, where `most` rows may be in memory at once; longer ones are cut to that."""
    blocks: list[list[MicroBatch]] = []
    # An eighth of what fits: joining a block's batches copies them.
    size, room = 0, min(BLOCK_ROWS, most // 8)
    for batch in batches:
        for start in range(0, len(batch.samples), most):
            part = MicroBatch(batch.layout, [[s] for s in batch.samples[start : start + most]])
            if not blocks or size + len(part.samples) > room:
                blocks.append([])
                size = 0
            blocks[-1].append(part)
            size += len(part.samples)
    return blocks


def _joined(samples: list[Sample], parts: Sequence[SampleGradients]) -> GradientBlock:
    """All rows in one matrix [B, P], and each factor's part of it."""
    rows = [torch.cat([factor.flatten(1) for factor in part.values()], 1) for part in parts]
    matrix = rows[0] if len(rows) == 1 else torch.cat(rows)
    shapes = {name: factor.shape[1:] for name, factor in parts[0].items()}
    pieces = torch.split(matrix, [shape.numel() for shape in shapes.values()], 1)
    views = {name: piece.view(-1, *shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
    return GradientBlock(samples, views, matrix)


def _progress(batches: Sequence[T]) -> Iterable[T]:
    """The batches, with their progress displayed."""
    with show_progress("influence", len(batches), "batches") as advance:
        for batch in batches:
            yield batch
            advance()
