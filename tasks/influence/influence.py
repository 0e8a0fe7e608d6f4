"""TracIn at the policy that the update starts from: which samples push the way that validation asks for.

    L_i   = -A_i w_i Σ_t log p_it / N          a sample's part of the GRPO loss while the ratio is 1
    L_val = -Σ_j c_j w_j Σ_t log p_jt / M      over the validation samples; validation_losses.py says what c may be
    influence_i = ⟨∇L_i, ∇L_val⟩               over the LoRA factors (Pruthi et al. 2020)

w is 1, N and M are all their tokens; where `grpo.loss` gives completions or a constant the weight, they are what
tasks/policy/averaging.py says. At ratio 1 no more is left of the losses: every surrogate, with the ratio of tokens
or of completions, has the gradient -A ∇ log p there.

Both are losses, so a step θ - η ∇L_i changes L_val by -η · influence_i: above 0 helps. Left out: clipping (inactive
while the ratio is 1), the KL term, the entropy bonus, and Adam's rescaling of the step unless it is asked for:

    cosine   Σ_j ⟨∇L_i / ‖∇L_i‖, ∇L_j / ‖∇L_j‖⟩ / n over the n validation samples: no vote weighs more for its length
             (LESS, Xia et al. 2024)
    centred  cosine, less its mean over the batch's samples, weighted by |advantage| as it is before negative_weight:
             what all completions' gradients have in common says nothing of which is better. As the advantages of a
             group sum up to 0, it takes nothing from the group's influence as a whole
    local    sign(A_i) Σ_j c_j max(0, cos(s_i, s_j))³ with s = ∇ Σ_t log p, centred likewise: a validation sample speaks
             for what is like it. One direction for all lets families of problems outvote each other, and what
             completions have in common drowns what tells them apart
    adam     ⟨∇L_i, P ∇L_val⟩ with P = 1 / (√v + ε), v the mean square of the round's steps' gradients: what Adam's
             step does, without its momentum, which is the same for all samples

With the n training samples as their own validation, by the update's own loss, mean influence = ‖∇L_val‖² / n ≥ 0
whatever they are: every sample votes for itself too, which is most of its influence in a batch of unlike problems,
unless it is left out.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from tasks.influence.gram import products, rescaled, squared_norms, total, unit, weighted_sum
from tasks.influence.local import Likeness
from tasks.influence.losses import Validation, coefficients, loss_gradient
from tasks.influence.passes import Passes, Row, row_of
from tasks.influence.sample_gradients import Direction, SampleGradients, lora_factors
from tasks.params import Similarity
from tasks.policy.averaging import Averaging
from tasks.policy.processes import added_up, gathered
from tasks.policy.samples import Sample
from tasks.policy.scorer import Scorer

BUDGET = 2**30
"""Bytes that gradients of single samples may take."""

EPSILON = 1e-8
"""Adam's."""


@dataclass(frozen=True)
class Measure:
    """How influence is measured. Only in the same batch is there a vote of one's own or of one's group to leave out."""

    exclude_self: bool = False
    leave_group_out: bool = False
    similarity: Similarity = "dot"
    adam: int | None = None  # problems in an optimiser step, where influence is to be in Adam's scale
    budget: int = BUDGET

    @property
    def centred(self) -> bool:
        """Whether the batch's mean is taken off."""
        return self.similarity in ("centred", "local")

    @property
    def shortened(self) -> bool:
        """Whether every gradient is taken at length 1 before they are added up."""
        return self.similarity in ("cosine", "centred")


@dataclass(frozen=True)
class Scored:
    """A sample's influence; ⟨∇L_i, ∇L_val⟩ with nothing left out or rescaled; and ‖∇L_i‖."""

    influence: float | None
    product: float | None
    gradient_norm: float | None


NOT_MEASURED = Scored(None, None, None)
SILENT = Scored(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Found:
    """What was measured of each sample, in order, and ∇L_val."""

    each: list[Scored]
    gradient: Direction


def influences(
    scorer: Scorer,
    samples: Sequence[Sample],
    averaging: Averaging,
    validation: Validation,
    measure: Measure = Measure(),
    shares: Sequence[float] | None = None,
) -> Found:
    """Influence of each sample, in order; 0, with no computing, where its advantage is 0.

    `shares` [n] are what the samples weigh in the mean that `centred` takes off: the size of the advantage as it was
    before the update scaled it; by default as it is.

    With the same batch one pass does it where the gradients of all fit in `measure.budget` bytes. Cosines with other
    samples take one over these too; `local` goes through the samples again for each budget's worth of them. Several
    processes go through a share each, and all find the same. Raises GraftError where groups are left out and one does
    not fit.
    """
    own = coefficients(samples, averaging)
    votes = coefficients(validation.samples, validation.averaging)
    given = votes if validation.same_batch else [0.0] * len(samples)
    groups = validation.same_batch and measure.leave_group_out
    shares = [abs(s.advantage) for s in samples] if shares is None else shares
    shares = shares if measure.centred else [0.0] * len(samples)
    rows = [s for s, a, c, share in zip(samples, own, given, shares, strict=True) if a or c or share]
    passes = Passes(scorer, rows, measure.budget, whole_groups=groups)
    plain, used, weights = _directions(scorer, passes, validation, votes, measure.shortened)
    scale = _adam_scale(scorer, samples, averaging, measure.adam) if measure.adam else None
    weights, used = weights if groups else {}, rescaled(used, scale)
    heard: dict[Row, _Heard] = {}
    local = measure.similarity == "local"
    likeness = Likeness(scorer, validation, votes, measure.budget, groups, scale) if local else None
    for batch, scores in _heard_by(likeness, passes):
        heard |= _heard(batch, scores, plain, used, weights, scale, measure.shortened)
    if likeness:
        heard = {row: replace(one, used=likeness.vote(row), own=1.0, group=0.0) for row, one in heard.items()}
    heard = {row: one for part in gathered(heard) for row, one in part.items()}
    found = [
        _counted(c, heard[row_of(s)], len(votes), measure) if a or share else 0.0
        for s, a, c, share in zip(samples, own, given, shares, strict=True)
    ]
    common = math.fsum(map(math.prod, zip(found, shares, strict=True))) / (math.fsum(shares) or 1.0)
    each = [
        _scored(a, x - common, heard[row_of(s)], measure.similarity != "dot") if a else SILENT
        for s, a, x in zip(samples, own, found, strict=True)
    ]
    return Found(each, plain)


@dataclass(frozen=True)
class _Heard:
    """Of a row with score s, and ŝ = s / ‖s‖ if `shortened`, else s; D is the direction that it is measured by."""

    norm: float  # ‖s‖
    plain: float  # ⟨s, ∇L_val⟩
    used: float  # ⟨ŝ, P D⟩
    own: float  # ⟨ŝ, P ŝ⟩
    group: float  # ⟨ŝ, P (what its group gives to D)⟩


def _counted(c: float, heard: _Heard, size: int, measure: Measure) -> float:
    """⟨ŝ, P D⟩ less the votes that are left out; c is what the sample's score weighs in the validation loss."""
    if measure.leave_group_out:
        return heard.used - heard.group
    if measure.exclude_self:
        return heard.used - (_sign(c) / size if measure.shortened else c) * heard.own
    return heard.used


def _scored(a: float, counted: float, heard: _Heard, unit: bool) -> Scored:
    """Of a sample whose score weighs a in the update's loss."""
    return Scored((_sign(a) if unit else a) * counted, a * heard.plain, abs(a) * heard.norm)


def _heard(
    rows: Sequence[Sample],
    scores: SampleGradients,
    plain: Direction,
    used: Direction,
    weights: dict[Row, float],
    scale: Direction | None,
    shortened: bool,
) -> dict[Row, _Heard]:
    """`weights` of the rows in D, where their groups are to be left out: then the rows of a problem stand together."""
    import torch

    squares, plainly = squared_norms(scores), products(scores, plain)
    scores = unit(scores) if shortened else scores
    groups = torch.zeros_like(squares)
    if weights:
        of = [s.problem_id for s in rows]
        for name in dict.fromkeys(of):
            own = torch.tensor([weights[row_of(s)] * (s.problem_id == name) for s in rows], dtype=torch.float64)
            given = products(scores, rescaled(weighted_sum(scores, own), scale))
            groups += given * torch.tensor([other == name for other in of], device=given.device)
    counted = plainly if used is plain and not shortened else products(scores, used)
    own_votes = squares if scale is None and not shortened else squared_norms(scores, scale)
    columns = (squares.sqrt(), plainly, counted, own_votes, groups)
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    return {row_of(s): _Heard(*own) for s, own in zip(rows, numbers, strict=True)}


def _heard_by(likeness: Likeness | None, passes: Passes) -> Iterator[tuple[list[Sample], SampleGradients]]:
    """All rows once, and meanwhile and afterwards all before `likeness`, as often as it goes on."""
    goes_on = likeness is not None and likeness.goes_on()
    for batch, scores in passes:
        if likeness and goes_on:
            likeness.hear(batch, scores)
        yield batch, scores
    while likeness and goes_on and likeness.goes_on():
        for batch, scores in passes:
            likeness.hear(batch, scores)


def _directions(
    scorer: Scorer, passes: Passes, validation: Validation, votes: Sequence[float], shortened: bool
) -> tuple[Direction, Direction, dict[Row, float]]:
    """∇L_val; D, if `shortened` made of gradients of length 1; and what each row weighs in D."""
    import torch

    sums, signs = dict[Row, float](), dict[Row, float]()
    for sample, c in zip(validation.samples, votes, strict=True):
        sums[row_of(sample)] = sums.get(row_of(sample), 0.0) + c
        signs[row_of(sample)] = signs.get(row_of(sample), 0.0) + _sign(c) / len(votes)
    if validation.same_batch:
        passes.keep()
    if not shortened and not (validation.same_batch and passes.fit):
        plain = validation.gradient(scorer)
        return plain, plain, sums
    if not validation.same_batch:
        voting = [s for s, c in zip(validation.samples, votes, strict=True) if c]
        passes = Passes(scorer, voting, passes.budget)
    plain_parts, unit_parts = [], []
    for rows, scores in passes:
        plain_parts.append(weighted_sum(scores, torch.tensor([sums[row_of(s)] for s in rows], dtype=torch.float64)))
        if shortened:
            weights = torch.tensor([signs[row_of(s)] for s in rows], dtype=torch.float64)
            unit_parts.append(weighted_sum(unit(scores), weights))
    plain = _added_up(plain_parts, scorer)
    return (plain, _added_up(unit_parts, scorer), signs) if shortened else (plain, plain, sums)


def _added_up(parts: Sequence[Direction], scorer: Scorer) -> Direction:
    """The sum of what all processes have found."""
    import torch

    factors = {name: module.weight for name, module in lora_factors(scorer.model).items()}
    none = {name: torch.zeros_like(w, dtype=torch.promote_types(w.dtype, torch.float32)) for name, w in factors.items()}
    found = total([none, *parts])  # one without a share has no parts
    return dict(zip(found, added_up(list(found.values())), strict=True))


def _adam_scale(scorer: Scorer, samples: Sequence[Sample], averaging: Averaging, problems: int) -> Direction:
    """P, from steps of so many problems in the order of the samples."""
    groups = [list(group) for _, group in groupby(samples, key=lambda s: s.problem_id)]
    steps = [groups[start : start + problems] for start in range(0, len(groups), problems)]
    squares = []
    for step in steps:
        gradient = loss_gradient(scorer, [s for group in step for s in group], averaging)
        squares.append({name: own.double().square() / len(steps) for name, own in gradient.items()})
    return {name: 1 / (own.sqrt() + EPSILON) for name, own in total(squares).items()}


def _sign(number: float) -> float:
    return math.copysign(1.0, number) if number else 0.0
