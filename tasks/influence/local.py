"""Votes of validation samples for what is like them: kernel regression on score gradients.

    x_i = Σ_j c_j max(0, cos(s_i, s_j))³        s = ∇ Σ_t log p, over the LoRA factors

Every pair is looked at, so that one side has to be held: validation rows, as many at a time as fit in memory; for each
such part the training rows are gone through once.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tasks.influence.gram import rescaled, unit
from tasks.influence.losses import Validation
from tasks.influence.passes import Passes, Row, row_of
from tasks.influence.sample_gradients import Direction, SampleGradients
from tasks.policy.samples import Sample
from tasks.policy.scorer import Scorer

if TYPE_CHECKING:
    from torch import Tensor

SHARPNESS = 3
"""Power of the cosine. With 1 the common part of all gradients decides; 2 to 9 told flipped rewards about as well."""


def local_votes(
    scorer: Scorer,
    passes: Passes,
    validation: Validation,
    votes: Sequence[float],
    budget: int,
    leave_group_out: bool,
    scale: Direction | None,
) -> dict[Row, float]:
    """-x of the rows that are gone through in `passes`; `votes` are -c of the validation samples in ∇L_val.

    With `leave_group_out` no sample of the same problem votes; cosines are those of √scale · s.
    """
    import torch

    sums = dict[Row, float]()
    for sample, c in zip(validation.samples, votes, strict=True):
        sums[row_of(sample)] = sums.get(row_of(sample), 0.0) + c
    voting = [s for s, c in zip(validation.samples, votes, strict=True) if c]
    found: dict[Row, float] = {}
    for judges, theirs in _parts(Passes(scorer, voting, budget), budget, scale):
        weights = torch.tensor([sums[row_of(s)] for s in judges], dtype=torch.float64)
        for rows, scores in passes:
            own = _flat(scores, scale)
            near = torch.cat([own @ part.T for part in theirs], 1).double().clamp(min=0) ** SHARPNESS  # [R, V]
            if leave_group_out:
                near *= torch.tensor([[s.problem_id != j.problem_id for j in judges] for s in rows])
            for sample, vote in zip(rows, (near @ weights.to(near.device)).tolist(), strict=True):
                found[row_of(sample)] = found.get(row_of(sample), 0.0) + vote
    return found


def _parts(passes: Passes, budget: int, scale: Direction | None) -> "Iterator[tuple[list[Sample], list[Tensor]]]":
    """Rows and their gradients at length 1, in matrices [·, P] of together at most `budget` bytes, or in one."""
    rows: list[Sample] = []
    held: list[Tensor] = []
    for batch, scores in passes:
        own = _flat(scores, scale)
        if held and sum(part.nbytes for part in [*held, own]) > budget:
            yield rows, held
            rows, held = [], []
        rows, held = [*rows, *batch], [*held, own]
    if held:
        yield rows, held


def _flat(scores: SampleGradients, scale: Direction | None) -> "Tensor":
    """Of length 1, [B, P]."""
    import torch

    if scale is not None:
        scores = dict(rescaled(scores, {name: own.sqrt().to(scores[name].dtype) for name, own in scale.items()}))
    return torch.cat([own.flatten(1) for own in unit(scores).values()], 1)
