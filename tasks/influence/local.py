"""Votes of validation samples for what is like them: kernel regression on score gradients.

    x_i = Σ_j c_j max(0, cos(s_i, s_j))³        s = ∇ Σ_t log p, over the LoRA factors

Every pair is looked at, so that one side has to be held: validation rows, as many at a time as fit in memory; for each
such part the training rows are gone through once. Several processes have a share of the training rows each, and all
validation rows.
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


class Likeness:
    """x of rows that are heard: once each for every part of the validation rows.

    while likeness.goes_on():
        for part in passes:
            likeness.hear(part.rows, part.own)
    """

    def __init__(
        self,
        scorer: Scorer,
        validation: Validation,
        votes: Sequence[float],
        budget: int,
        leave_group_out: bool,
        scale: Direction | None,
    ) -> None:
        """`votes` are what the validation samples' scores weigh in ∇L_val, -c: what comes out is -x.

        With `leave_group_out` no sample of the same problem votes; cosines are those of √scale · s.
        """
        self._leave_group_out, self._scale = leave_group_out, scale
        self._sums = dict[Row, float]()
        for sample, c in zip(validation.samples, votes, strict=True):
            self._sums[row_of(sample)] = self._sums.get(row_of(sample), 0.0) + c
        voting = [s for s, c in zip(validation.samples, votes, strict=True) if c]
        self._parts = _parts(Passes(scorer, voting, budget, shared=False), budget, scale)
        self._judges: tuple[list[Sample], list[Tensor]] = ([], [])
        self._heard = dict[Row, float]()

    def goes_on(self) -> bool:
        """Whether there is another part to be heard."""
        self._judges = next(self._parts, ([], []))
        return bool(self._judges[0])

    def hear(self, rows: Sequence[Sample], scores: SampleGradients) -> None:
        """What this part says of these rows."""
        import torch

        judges, theirs = self._judges
        own = _flat(scores, self._scale)
        near = torch.cat([own @ part.T for part in theirs], 1).double().clamp(min=0) ** SHARPNESS  # [R, V]
        if self._leave_group_out:
            others = [[s.problem_id != j.problem_id for j in judges] for s in rows]
            near *= torch.tensor(others, device=near.device)
        weights = torch.tensor([self._sums[row_of(s)] for s in judges], dtype=torch.float64, device=near.device)
        for sample, vote in zip(rows, (near @ weights).tolist(), strict=True):
            self._heard[row_of(sample)] = self.vote(row_of(sample)) + vote

    def vote(self, row: Row) -> float:
        """-x of a row; 0 where nobody votes."""
        return self._heard.get(row, 0.0)


def _parts(passes: Passes, budget: int, scale: Direction | None) -> "Iterator[tuple[list[Sample], list[Tensor]]]":
    """Rows and their gradients at length 1, in matrices [·, P] of together at most `budget` bytes, or in one."""
    rows: list[Sample] = []
    held: list[Tensor] = []
    for part in passes:
        own = _flat(part.own, scale)
        if held and sum(matrix.nbytes for matrix in [*held, own]) > budget:
            yield rows, held
            rows, held = [], []
        rows, held = [*rows, *part.rows], [*held, own]
    if held:
        yield rows, held


def _flat(scores: SampleGradients, scale: Direction | None) -> "Tensor":
    """Of length 1, [B, P]."""
    import torch

    if scale is not None:
        scores = dict(rescaled(scores, {name: own.sqrt().to(scores[name].dtype) for name, own in scale.items()}))
    return torch.cat([own.flatten(1) for own in unit(scores).values()], 1)
