"""Sums of a kernel between the gradients of training rows and those of validation rows.

    x_i = Σ_j w_j k(g_i, s_j)        s = ∇ Σ_t log p, over the LoRA factors; w_j = -c_j / M, the weight of s_j in ∇L_val

    dot      k = ⟨g, s⟩                     so that x_i = ⟨g_i, ∇L_val⟩
    local    k = max(0, cos(g, s))³         kernel regression: only similar validation samples count

Every pair is computed, so one side has to be in memory: as many validation rows at a time as fit, and for each such
part one pass over the training rows. Several processes have a share of the training rows each, and all validation rows.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from tasks.model.sample import Sample
from tasks.params.fields import Similarity
from tasks.select.gradient_passes import GradientBlock, GradientPasses
from tasks.select.losses import GradientRow, Validation, row_of
from tasks.select.sample_gradients import safe_inverse

Normed = tuple[list[Sample], Tensor, Tensor]
"""Rows, gradients of each [B, P], and one over their norms [B] in float64."""

SHARPNESS = 3
"""Power of the cosine. With 1 the common part of all gradients decides; 2 to 9 find flipped rewards about as well."""


class KernelSums:
    """x of training rows, one pass over them for each part of the validation rows.

    while sums.next_part():
        for block in passes:
            sums.add(block)
    """

    def __init__(
        self,
        validation: Validation,
        cached: GradientPasses,
        similarity: Similarity,
        row_of_training: Callable[[Sample], GradientRow],
        without_group: bool = False,
    ) -> None:
        """`cached` passes over all validation rows, in every process; `row_of_training` is that of the passes over the
        training rows. With `without_group` no validation sample of a row's own problem counts."""
        self._weights = validation.row_weights
        self._parts = _parts(cached)
        self._part: list[Normed] = []
        self._sums = dict[GradientRow, float]()
        self._similarity, self._row_of, self._without_group = similarity, row_of_training, without_group

    def next_part(self) -> bool:
        """Load the next validation rows; False if there are none left."""
        self._part = next(self._parts, [])
        return bool(self._part)

    def add(self, block: GradientBlock) -> None:
        """Add the part's terms to the sums of the block's rows."""
        _, gradients, inverse_norms = _normed(block)
        for voters, votes, vote_inverse_norms in self._part:
            kernel = (gradients @ votes.T).double()
            if self._similarity == "local":
                kernel = (kernel * inverse_norms[:, None] * vote_inverse_norms).clamp(min=0) ** SHARPNESS
            if self._without_group:
                kernel *= kernel.new_tensor([[s.problem_id != v.problem_id for v in voters] for s in block.rows])
            weights = kernel.new_tensor([self._weights[row_of(v)] for v in voters])
            for sample, value in zip(block.rows, (kernel @ weights).tolist(), strict=True):
                self._sums[self._row_of(sample)] = self.of(self._row_of(sample)) + value

    def of(self, row: GradientRow) -> float:
        """The sum x of a row, so far."""
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
