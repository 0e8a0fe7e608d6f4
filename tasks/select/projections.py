"""Per-sample ⟨g, ∇L_val⟩, ‖g‖, and the self-influence and group influence to subtract."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tasks.model.distributed.collectives import all_gather
from tasks.model.sample import Sample
from tasks.select.gradient_algebra import (
    paired_products,
    products,
    safe_inverse,
    squared_norms,
    unit_rows,
    weighted_sum,
)
from tasks.select.gradient_passes import GradientBlock, GradientPasses
from tasks.select.local_similarity import LocalSimilarity
from tasks.select.losses import Row
from tasks.select.sample_gradients import Direction, SampleGradients

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Projector:
    """The directions that gradients are projected on."""

    plain: Direction  # ∇L_val
    used: Direction  # D
    weights: dict[Row, float]  # of the rows in D, where groups are left out; else {}
    normalized: bool  # gradients have length 1 in D

    def numbers(self, own: SampleGradients, scores: SampleGradients | None = None) -> "Tensor":
        """‖g‖², ⟨g, ∇L_val⟩, ⟨g, D⟩, ⟨g, s⟩ and ‖s‖² of each row over these factors, [5, B] in float64.

        `scores` are s where g is not.
        """
        import torch

        scores = own if scores is None else scores
        squares, plain_products = squared_norms(own), products(own, self.plain)
        counted = plain_products if self.used is self.plain else products(own, self.used)
        theirs = squares if scores is own else squared_norms(scores)
        own_products = squares if scores is own else paired_products(own, scores)
        return torch.stack([squares, plain_products, counted, own_products, theirs])

    def projections(self, keys: Sequence[Row], numbers: "Tensor", of_group: "Tensor | None") -> "dict[Row, Projection]":
        """From all factors' `numbers` [5, B], and `group_products` [B] where groups are left out."""
        import torch

        squares, plain_products, counted, own_products, theirs = numbers
        norms, ones = squares.sqrt(), torch.ones_like(squares)
        by, by_scores = (safe_inverse(norms), safe_inverse(theirs.sqrt())) if self.normalized else (ones, ones)
        groups = torch.zeros_like(norms) if of_group is None else of_group * by
        columns = torch.stack([norms, plain_products, counted * by, own_products * by * by_scores, groups])
        return {key: Projection(*own) for key, own in zip(keys, columns.T.tolist(), strict=True)}

    def group_products(self, keys: Sequence[Row], part: GradientBlock) -> "Tensor":
        """⟨g, what its group gives to D⟩ of each row, [B] in float64. All rows of a problem are in the part."""
        import torch

        scores = unit_rows(part.scores) if self.normalized else part.scores
        found = torch.zeros(len(keys), dtype=torch.float64, device=next(iter(part.own.values())).device)
        for places in _by_problem(keys):
            weights = torch.tensor([self.weights[keys[place]] for place in places], dtype=torch.float64)
            found[places] = products(_rows(part.own, places), weighted_sum(_rows(scores, places), weights))
        return found


@dataclass(frozen=True)
class Projection:
    """Inner products of a row's gradient g with the directions; ĝ = g / ‖g‖ if `normalized`, else g.

    g is the score s = ∇ Σ log p unless there are token losses.
    """

    norm: float  # ‖g‖
    plain: float  # ⟨g, ∇L_val⟩
    used: float  # ⟨ĝ, D⟩
    own: float  # ⟨ĝ, ŝ⟩
    group: float  # ⟨ĝ, what its group gives to D⟩


class GradientSum:
    """Σ weight · g over the rows that a pass has computed."""

    def __init__(self, passes: GradientPasses, weights: Mapping[Row, float]) -> None:
        """`weights` of the rows; 0 of those that it lacks."""
        self.parts: dict[str, Tensor] = {}
        self._passes, self._weights = passes, weights

    def add(self, rows: Sequence[Sample], own: SampleGradients) -> None:
        """Add the gradients of B rows for some factors."""
        import torch

        weights = torch.tensor([self._weights.get(self._passes.row_of(s), 0.0) for s in rows], dtype=torch.float64)
        for name, part in weighted_sum(own, weights).items():
            self.parts[name] = self.parts[name] + part if name in self.parts else part


def project(
    passes: GradientPasses,
    projector: Projector,
    total: GradientSum,
    similarity: LocalSimilarity | None,
    in_memory: bool,
) -> dict[Row, Projection]:
    """The projections of all rows of all processes; layer by layer unless complete gradients are needed.

    The rows of this process are added to `total`.
    """
    projections: dict[Row, Projection] = {}

    def numbers(rows: Sequence[Sample], own: SampleGradients) -> "Tensor":
        total.add(rows, own)
        return projector.numbers(own)

    if similarity or projector.weights or in_memory:
        for part in _blocks_through(similarity, passes):
            keys = [passes.row_of(s) for s in part.rows]
            of_group = projector.group_products(keys, part) if projector.weights else None
            total.add(part.rows, part.own)
            projections |= projector.projections(keys, projector.numbers(part.own, part.scores), of_group)
    else:
        for batch, sums in passes.summed(numbers):
            projections |= projector.projections([passes.row_of(s) for s in batch], sums, None)
    if similarity:
        projections = {row: replace(p, used=similarity.of(row), own=1.0, group=0.0) for row, p in projections.items()}
    return {row: one for part in all_gather(projections) for row, one in part.items()}


def _by_problem(keys: Sequence[Row]) -> list[list[int]]:
    """The indices of each problem's rows."""
    found: dict[str, list[int]] = {}
    for place, (problem, *_) in enumerate(keys):
        found.setdefault(problem, []).append(place)
    return list(found.values())


def _blocks_through(similarity: LocalSimilarity | None, passes: GradientPasses) -> Iterator[GradientBlock]:
    """All rows once; they are added to `similarity` once for each of its parts."""
    more = similarity is not None and similarity.next_part()
    for part in passes:
        if similarity and more:
            similarity.add(part)
        yield part
    while similarity and more and similarity.next_part():
        for part in passes:
            similarity.add(part)


def _rows(gradients: SampleGradients, places: Sequence[int]) -> SampleGradients:
    return {name: every[places] for name, every in gradients.items()}
