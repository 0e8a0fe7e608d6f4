"""Votes of validation samples for what is like them: kernel regression on score gradients.

    x_i = Σ_j c_j max(0, cos(s_i, s_j))³        s = ∇ Σ_t log p, over the LoRA factors

Every pair is looked at, so that one side has to be held: validation rows, as many at a time as fit in memory; for each
such part the training rows are gone through once. Several processes have a share of the training rows each, and all
validation rows.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tasks.influence.gradient_algebra import safe_inverse
from tasks.influence.gradient_passes import GradientBlock, GradientPasses
from tasks.influence.loss_gradients import Row, Validation, row_of
from tasks.influence.sample_gradients import Direction
from tasks.model.sample import Sample

if TYPE_CHECKING:
    from torch import Tensor

SHARPNESS = 3
"""Power of the cosine. With 1 the common part of all gradients decides; 2 to 9 told flipped rewards about as well."""


class LocalSimilarity:
    """x of rows that are heard: once each for every part of the validation rows.

    while likeness.goes_on():
        for part in passes:
            likeness.hear(part)
    """

    def __init__(
        self,
        validation: Validation,
        votes: Sequence[float],
        judges: GradientPasses,
        leave_group_out: bool,
        scale: Direction | None,
    ) -> None:
        """`votes` are what the validation samples' scores weigh in ∇L_val, -c: what comes out is -x.

        `judges` are passes through all their rows that vote, in every process. With `leave_group_out` no sample of the
        same problem votes; cosines are those of √scale · s.
        """
        self._leave_group_out, self._scale = leave_group_out, scale
        self._sums = dict[Row, float]()
        for sample, c in zip(validation.samples, votes, strict=True):
            self._sums[row_of(sample)] = self._sums.get(row_of(sample), 0.0) + c
        self._parts = _held(judges, scale)
        self._judges: list[tuple[list[Sample], Tensor, Tensor]] = []
        self._heard = dict[Row, float]()

    def goes_on(self) -> bool:
        """Whether there is another part to be heard."""
        self._judges = next(self._parts, [])
        return bool(self._judges)

    def hear(self, part: GradientBlock) -> None:
        """What these validation rows say of the part's."""
        own, by = _measured(part, self._scale)
        for judges, theirs, by_theirs in self._judges:
            near = ((own @ theirs.T).double() * by[:, None] * by_theirs).clamp(min=0) ** SHARPNESS  # [R, V]
            self._add(part.rows, judges, near)

    def _add(self, rows: Sequence[Sample], judges: Sequence[Sample], near: "Tensor") -> None:
        if self._leave_group_out:
            others = [[s.problem_id != j.problem_id for j in judges] for s in rows]
            near *= near.new_tensor(others)
        weights = near.new_tensor([self._sums.get(row_of(s), 0.0) for s in judges])
        for sample, vote in zip(rows, (near @ weights).tolist(), strict=True):
            self._heard[row_of(sample)] = self.vote(row_of(sample)) + vote

    def vote(self, row: Row) -> float:
        """-x of a row; 0 where nobody votes."""
        return self._heard.get(row, 0.0)


def _held(passes: GradientPasses, scale: Direction | None) -> "Iterator[list[tuple[list[Sample], Tensor, Tensor]]]":
    """Rows, their gradients and what makes these of length 1, of together at most the passes' budget, or one part."""
    held: list[tuple[list[Sample], Tensor, Tensor]] = []
    for part in passes:
        own, by = _measured(part, scale)
        if held and sum(matrix.nbytes for _, matrix, _ in held) + own.nbytes > passes.budget:
            yield held
            held = []
        held.append((part.rows, own, by))
    if held:
        yield held


def _measured(part: GradientBlock, scale: Direction | None) -> "tuple[Tensor, Tensor]":
    """√scale · s [B, P], and one over their lengths [B] in float64."""
    import torch

    matrix = part.matrix
    if scale is not None:
        matrix = matrix * torch.cat([scale[name].flatten() for name in part.own]).sqrt().to(matrix.dtype)
    return matrix, safe_inverse(torch.linalg.vector_norm(matrix, dim=1).double())
