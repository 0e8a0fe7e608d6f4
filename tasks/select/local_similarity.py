"""Kernel regression on score gradients: a validation sample counts for the samples that are similar to it.

    x_i = Σ_j c_j max(0, cos(s_i, s_j))³        s = ∇ Σ_t log p, over the LoRA factors

Every pair is computed, so one side has to be in memory: as many validation rows at a time as fit, and for each such
part one pass over the training rows. Several processes have a share of the training rows each, and all validation rows.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from tasks.model.sample import Sample
from tasks.select.gradient_algebra import safe_inverse
from tasks.select.gradient_passes import GradientBlock, GradientPasses
from tasks.select.losses import Row, Validation, row_of

Normed = tuple[list[Sample], Tensor, Tensor]
"""Rows, s of each [B, P], and one over their norms [B] in float64."""

SHARPNESS = 3
"""Power of the cosine. With 1 the common part of all gradients decides; 2 to 9 find flipped rewards about as well."""


class LocalSimilarity:
    """x of training rows, one pass over them for each part of the validation rows.

    while similarity.next_part():
        for block in passes:
            similarity.add(block)
    """

    def __init__(self, validation: Validation, cached: GradientPasses) -> None:
        """`cached` passes over all validation rows, in every process."""
        self._weights = cached.sum_by_row(validation.samples, validation.score_weights)
        self._parts = _parts(cached)
        self._part: list[Normed] = []
        self._sums = dict[Row, float]()

    def next_part(self) -> bool:
        """Load the next validation rows; False if there are none left."""
        self._part = next(self._parts, [])
        return bool(self._part)

    def add(self, block: GradientBlock) -> None:
        """Add the part's terms to the sums of the block's rows."""
        _, own, inverse_norms = _normed(block)
        for others, theirs, their_inverse_norms in self._part:
            cosines = (own @ theirs.T).double() * inverse_norms[:, None] * their_inverse_norms
            kernel = cosines.clamp(min=0) ** SHARPNESS
            weights = kernel.new_tensor([self._weights[row_of(s)] for s in others])
            for sample, value in zip(block.rows, (kernel @ weights).tolist(), strict=True):
                self._sums[row_of(sample)] = self.of(row_of(sample)) + value

    def of(self, row: Row) -> float:
        """-x of a row, as the weights of the scores in ∇L_val are -c."""
        return self._sums.get(row, 0.0)


def _parts(passes: GradientPasses) -> Iterator[list[Normed]]:
    """Blocks of together at most the passes' budget, or one block."""
    part: list[Normed] = []
    for block in passes:
        normed = _normed(block)
        if part and sum(matrix.nbytes for _, matrix, _ in part) + normed[1].nbytes > passes.budget:
            yield part
            part = []
        part.append(normed)
    if part:
        yield part


def _normed(block: GradientBlock) -> Normed:
    return block.rows, block.matrix, safe_inverse(torch.linalg.vector_norm(block.matrix, dim=1).double())
