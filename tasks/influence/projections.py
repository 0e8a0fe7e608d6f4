"""What a pass over the samples tells of each: products with the directions, norms, own and group's votes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tasks.influence.gradient_algebra import (
    paired_products,
    products,
    rescale,
    safe_inverse,
    squared_norms,
    unit_rows,
    weighted_sum,
)
from tasks.influence.gradient_passes import GradientBlock, GradientPasses
from tasks.influence.local_similarity import LocalSimilarity
from tasks.influence.loss_gradients import Row
from tasks.influence.sample_gradients import Direction, SampleGradients
from tasks.model.distributed.collectives import all_gather

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Projector:
    """By what samples are measured."""

    plain: Direction  # ∇L_val
    used: Direction  # P D
    scale: Direction | None  # P, 1 if None
    weights: dict[Row, float]  # of the rows in D, where their groups are left out; else none
    shortened: bool  # to length 1 before they are added up

    def numbers(self, own: SampleGradients, votes: SampleGradients | None = None) -> "Tensor":
        """‖g‖², ⟨g, ∇L_val⟩, ⟨g, P D⟩, ⟨g, P s⟩ and ‖s‖² of each row, [5, B] in float64, as far as these factors go.

        `votes` are the s where they are not the g.
        """
        import torch

        votes = own if votes is None else votes
        squares, plainly = squared_norms(own), products(own, self.plain)
        counted = plainly if self.used is self.plain else products(own, self.used)
        theirs = squares if votes is own else squared_norms(votes)
        own_votes = squares if votes is own and self.scale is None else paired_products(own, votes, self.scale)
        return torch.stack([squares, plainly, counted, own_votes, theirs])

    def heard(self, keys: Sequence[Row], numbers: "Tensor", of_group: "Tensor | None") -> "dict[Row, Projection]":
        """From all factors' `numbers` [5, B], and `group_votes` [B] where groups are left out."""
        import torch

        squares, plainly, counted, own_votes, theirs = numbers
        norms, ones = squares.sqrt(), torch.ones_like(squares)
        by, by_votes = (safe_inverse(norms), safe_inverse(theirs.sqrt())) if self.shortened else (ones, ones)
        groups = torch.zeros_like(norms) if of_group is None else of_group * by
        columns = torch.stack([norms, plainly, counted * by, own_votes * by * by_votes, groups])
        return {key: Projection(*own) for key, own in zip(keys, columns.T.tolist(), strict=True)}

    def group_votes(self, keys: Sequence[Row], part: GradientBlock) -> "Tensor":
        """⟨g, P (what its group gives to D)⟩ of each row, [B] in float64. All rows of a problem are in the part."""
        import torch

        votes = unit_rows(part.votes) if self.shortened else part.votes
        found = torch.zeros(len(keys), dtype=torch.float64, device=next(iter(part.own.values())).device)
        for places in _by_problem(keys):
            weights = torch.tensor([self.weights[keys[place]] for place in places], dtype=torch.float64)
            given = rescale(weighted_sum(_rows(votes, places), weights), self.scale)
            found[places] = products(_rows(part.own, places), given)
        return found


@dataclass(frozen=True)
class Projection:
    """Of a row with the gradient g, and ĝ = g / ‖g‖ if `shortened`, else g; D is the direction that it is measured by.

    g is the score s = ∇ Σ log p unless there are token losses.
    """

    norm: float  # ‖g‖
    plain: float  # ⟨g, ∇L_val⟩
    used: float  # ⟨ĝ, P D⟩
    own: float  # ⟨ĝ, P ŝ⟩
    group: float  # ⟨ĝ, P (what its group gives to D)⟩


def project(
    passes: GradientPasses, measured: Projector, likeness: LocalSimilarity | None, held: bool
) -> dict[Row, Projection]:
    """All rows, of all processes; layer by layer where no gradient has to be whole, as it has where it is `held`."""
    heard: dict[Row, Projection] = {}
    if likeness or measured.weights or held:
        for part in _heard_by(likeness, passes):
            keys = [passes.row_of(s) for s in part.rows]
            of_group = measured.group_votes(keys, part) if measured.weights else None
            heard |= measured.heard(keys, measured.numbers(part.own, part.votes), of_group)
    else:
        for batch, sums in passes.summed(measured.numbers):
            heard |= measured.heard([passes.row_of(s) for s in batch], sums, None)
    if likeness:
        heard = {row: replace(one, used=likeness.vote(row), own=1.0, group=0.0) for row, one in heard.items()}
    return {row: one for part in all_gather(heard) for row, one in part.items()}


def _by_problem(keys: Sequence[Row]) -> list[list[int]]:
    """The places of each problem's rows."""
    found: dict[str, list[int]] = {}
    for place, (problem, *_) in enumerate(keys):
        found.setdefault(problem, []).append(place)
    return list(found.values())


def _heard_by(likeness: LocalSimilarity | None, passes: GradientPasses) -> Iterator[GradientBlock]:
    """All rows once, and meanwhile and afterwards all before `likeness`, as often as it goes on."""
    goes_on = likeness is not None and likeness.goes_on()
    for part in passes:
        if likeness and goes_on:
            likeness.hear(part)
        yield part
    while likeness and goes_on and likeness.goes_on():
        for part in passes:
            likeness.hear(part)


def _rows(gradients: SampleGradients, places: Sequence[int]) -> SampleGradients:
    return {name: every[places] for name, every in gradients.items()}
