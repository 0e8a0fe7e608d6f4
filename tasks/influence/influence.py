"""TracIn at the policy that the update starts from: which samples push the way that validation asks for.

    L_i   = -A_i w_i Σ_t log p_it / N          a sample's part of the GRPO loss while the ratio is 1
    L_val = -Σ_j c_j w_j Σ_t log p_jt / M      over the validation samples; validation_losses.py says what c may be
    influence_i = ⟨∇L_i, ∇L_val⟩               over the LoRA factors (Pruthi et al. 2020)

w is 1, N and M are all their tokens; where `grpo.loss` gives completions or a constant the weight, they are what
tasks/policy/averaging.py says. At ratio 1 no more is left of the losses: every surrogate, with the ratio of tokens
or of completions, has the gradient -A ∇ log p there.

Both are losses, so a step θ - η ∇L_i changes L_val by -η · influence_i: above 0 helps. Of the update's loss this leaves
out ratios other than 1, and with them clipping: at its first step there are none where the policy itself sampled, later
there are; the KL term, whose gradient is 0 only while the policy is its reference; and the entropy bonus. The stage
`select` leaves them out: it measures where the update's first step is taken. With influences(…, token_losses=…) nothing
is left out of L_i, and L_val stays as it is:

    L_i   = w_i Σ_t l_it / N                   l_it from tasks/grpo/losses.py, for instance

Adam's rescaling of the step is left out unless it is asked for. The measures:

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
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from tasks.errors import GraftError
from tasks.influence.gram import inverse, paired, products, rescaled, squared_norms, total, unit, weighted_sum
from tasks.influence.local import Likeness
from tasks.influence.losses import TokenLosses, Validation, coefficients, loss_gradient, loss_weights
from tasks.influence.passes import Part, Passes, Row
from tasks.influence.sample_gradients import Direction, SampleGradients, lora_factors
from tasks.params import Similarity
from tasks.policy.averaging import Averaging
from tasks.policy.processes import added_up, gathered
from tasks.policy.samples import Sample
from tasks.policy.scorer import Scorer

if TYPE_CHECKING:
    from torch import Tensor

BUDGET = 2**30
"""Bytes that gradients of single samples may take where they are held."""

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
    token_losses: TokenLosses | None = None,
) -> Found:
    """Influence of each sample, in order; 0, with no computing, where its advantage is 0.

    `shares` [n] are what the samples weigh in the mean that `centred` takes off: the size of the advantage as it was
    before the update scaled it; by default as it is. With `token_losses` it is ∇ of these, and not A ∇ log p, whose
    influence is measured; `centred` and `local` compare completions by the latter and raise GraftError.

    One pass gives the direction and another is heard layer by layer, in which no sample's gradient is held. Held, in
    `measure.budget` bytes, they are where one pass does for both because all of the same batch fit; where groups are
    left out, and GraftError is raised where one does not fit; for the direction of cosines; for a sample's own vote
    against token losses; and for `local`, which goes through the samples again for each budget's worth of validation
    samples. Several processes go through a share each, and all find the same.
    """
    if token_losses and measure.centred:
        raise GraftError(
            f"influence.similarity: {measure.similarity} compares completions by ∇ Σ log p, which is not the gradient "
            "of the token losses that are given; take dot or cosine"
        )
    own = loss_weights(samples, averaging) if token_losses else coefficients(samples, averaging)
    votes = coefficients(validation.samples, validation.averaging)
    counts = [_sign(c) / len(votes) for c in votes] if measure.shortened else votes
    given = counts if validation.same_batch else [0.0] * len(samples)
    shares = [abs(s.advantage) for s in samples] if shares is None else shares
    shares = shares if measure.centred else [0.0] * len(samples)
    rows = [s for s, a, c, share in zip(samples, own, given, shares, strict=True) if a or c or share]
    groups = validation.same_batch and measure.leave_group_out
    passes = Passes(scorer, rows, measure.budget, groups, token_losses, votes=validation.same_batch)
    plain, used = _directions(scorer, passes, validation, votes, counts, measure.shortened)
    scale = _adam_scale(scorer, samples, averaging, measure.adam, token_losses) if measure.adam else None
    local, used = measure.similarity == "local", rescaled(used, scale)
    likeness = Likeness(scorer, validation, votes, measure.budget, groups, scale) if local else None
    weights = _by_row(passes, validation.samples, counts) if groups and not local else {}
    numbers = partial(_numbers, plain=plain, used=used, scale=scale)
    heard: dict[Row, _Heard] = {}
    if likeness or weights or (token_losses and validation.same_batch and measure.exclude_self):
        for part in _heard_by(likeness, passes):
            keys = [passes.row_of(s) for s in part.rows]
            of_group = _group_votes(keys, part, weights, scale, measure.shortened) if weights else None
            heard |= _heard(keys, numbers(part.own, part.votes), of_group, measure.shortened)
    else:
        for batch, sums in passes.summed(numbers):
            heard |= _heard([passes.row_of(s) for s in batch], sums, None, measure.shortened)
    if likeness:
        heard = {row: replace(one, used=likeness.vote(row), own=1.0, group=0.0) for row, one in heard.items()}
    heard = {row: one for part in gathered(heard) for row, one in part.items()}
    found = [
        _counted(c, heard[passes.row_of(s)], measure) if a or share else 0.0
        for s, a, c, share in zip(samples, own, given, shares, strict=True)
    ]
    common = math.fsum(map(math.prod, zip(found, shares, strict=True))) / (math.fsum(shares) or 1.0)
    each = [
        _scored(a, x - common, heard[passes.row_of(s)], measure.similarity != "dot") if a else SILENT
        for s, a, x in zip(samples, own, found, strict=True)
    ]
    return Found(each, plain)


@dataclass(frozen=True)
class _Heard:
    """Of a row with the gradient g, and ĝ = g / ‖g‖ if `shortened`, else g; D is the direction that it is measured by.

    g is the score s = ∇ Σ log p unless there are token losses.
    """

    norm: float  # ‖g‖
    plain: float  # ⟨g, ∇L_val⟩
    used: float  # ⟨ĝ, P D⟩
    own: float  # ⟨ĝ, P ŝ⟩
    group: float  # ⟨ĝ, P (what its group gives to D)⟩


def _counted(c: float, heard: _Heard, measure: Measure) -> float:
    """⟨ĝ, P D⟩ less the votes that are left out; c is what the sample's ŝ weighs in D."""
    if measure.leave_group_out:
        return heard.used - heard.group
    if measure.exclude_self:
        return heard.used - c * heard.own
    return heard.used


def _scored(a: float, counted: float, heard: _Heard, unit: bool) -> Scored:
    """Of a sample whose g weighs a in the update's loss."""
    return Scored((_sign(a) if unit else a) * counted, a * heard.plain, abs(a) * heard.norm)


def _numbers(
    own: SampleGradients,
    votes: SampleGradients | None = None,
    *,
    plain: Direction,
    used: Direction,
    scale: Direction | None,
) -> "Tensor":
    """‖g‖², ⟨g, ∇L_val⟩, ⟨g, P D⟩, ⟨g, P s⟩ and ‖s‖² of each row, [5, B] in float64, as far as the given factors go.

    `votes` are the s where they are not the g.
    """
    import torch

    votes = own if votes is None else votes
    squares, plainly = squared_norms(own), products(own, plain)
    counted = plainly if used is plain else products(own, used)
    theirs = squares if votes is own else squared_norms(votes)
    own_votes = squares if votes is own and scale is None else paired(own, votes, scale)
    return torch.stack([squares, plainly, counted, own_votes, theirs])


def _heard(keys: Sequence[Row], numbers: "Tensor", of_group: "Tensor | None", shortened: bool) -> dict[Row, _Heard]:
    """From all factors' `_numbers` [5, B], and `_group_votes` [B] where groups are left out."""
    import torch

    squares, plainly, counted, own_votes, theirs = numbers
    norms, ones = squares.sqrt(), torch.ones_like(squares)
    by, by_votes = (inverse(norms), inverse(theirs.sqrt())) if shortened else (ones, ones)
    groups = torch.zeros_like(norms) if of_group is None else of_group * by
    columns = torch.stack([norms, plainly, counted * by, own_votes * by * by_votes, groups])
    return {key: _Heard(*own) for key, own in zip(keys, columns.T.tolist(), strict=True)}


def _group_votes(
    keys: Sequence[Row], part: Part, weights: dict[Row, float], scale: Direction | None, shortened: bool
) -> "Tensor":
    """⟨g, P (what its group gives to D)⟩ of each row, [B] in float64; `weights` of the rows in D.

    All rows of a problem are here.
    """
    import torch

    votes = unit(part.votes) if shortened else part.votes
    found = torch.zeros(len(keys), dtype=torch.float64, device=next(iter(part.own.values())).device)
    for places in _by_problem(keys):
        weighed = torch.tensor([weights[keys[place]] for place in places], dtype=torch.float64)
        given = weighted_sum({name: every[places] for name, every in votes.items()}, weighed)
        found[places] = products({name: every[places] for name, every in part.own.items()}, rescaled(given, scale))
    return found


def _by_problem(keys: Sequence[Row]) -> list[list[int]]:
    """The places of each problem's rows."""
    found: dict[str, list[int]] = {}
    for place, (problem, *_) in enumerate(keys):
        found.setdefault(problem, []).append(place)
    return list(found.values())


def _heard_by(likeness: Likeness | None, passes: Passes) -> Iterator[Part]:
    """All rows once, and meanwhile and afterwards all before `likeness`, as often as it goes on."""
    goes_on = likeness is not None and likeness.goes_on()
    for part in passes:
        if likeness and goes_on:
            likeness.hear(part.rows, part.own)
        yield part
    while likeness and goes_on and likeness.goes_on():
        for part in passes:
            likeness.hear(part.rows, part.own)


def _directions(
    scorer: Scorer,
    passes: Passes,
    validation: Validation,
    votes: Sequence[float],
    counts: Sequence[float],
    shortened: bool,
) -> tuple[Direction, Direction]:
    """∇L_val, to which the samples' scores give their `votes`; and D, to which they give their `counts`, if `shortened`
    at length 1."""
    import torch

    if validation.same_batch:
        passes.keep()
    kept = validation.same_batch and passes.fit
    if not kept and not (shortened and any(votes)):
        plain = validation.gradient(scorer)
        return plain, plain
    if not kept:
        voting = [s for s, c in zip(validation.samples, votes, strict=True) if c]
        passes = Passes(scorer, voting, passes.budget)
    sums, shares = (_by_row(passes, validation.samples, numbers) for numbers in (votes, counts))
    plain_parts, used_parts = [], []
    for part in passes:
        keys = [passes.row_of(s) for s in part.rows]
        own, used = (torch.tensor([of[key] for key in keys], dtype=torch.float64) for of in (sums, shares))
        plain_parts.append(weighted_sum(part.votes, own))
        if shortened:
            used_parts.append(weighted_sum(unit(part.votes), used))
    plain = _added_up(plain_parts, scorer)
    return plain, _added_up(used_parts, scorer) if shortened else plain


def _added_up(parts: Sequence[Direction], scorer: Scorer) -> Direction:
    """The sum of what all processes have found."""
    import torch

    factors = {name: module.weight for name, module in lora_factors(scorer.model).items()}
    none = {name: torch.zeros_like(w, dtype=torch.promote_types(w.dtype, torch.float32)) for name, w in factors.items()}
    found = total([none, *parts])  # one without a share has no parts
    return dict(zip(found, added_up(list(found.values())), strict=True))


def _by_row(passes: Passes, samples: Sequence[Sample], numbers: Sequence[float]) -> dict[Row, float]:
    """The sum of the numbers of each row's samples."""
    sums = dict[Row, float]()
    for sample, number in zip(samples, numbers, strict=True):
        sums[passes.row_of(sample)] = sums.get(passes.row_of(sample), 0.0) + number
    return sums


def _adam_scale(
    scorer: Scorer, samples: Sequence[Sample], averaging: Averaging, problems: int, token_losses: TokenLosses | None
) -> Direction:
    """P, from steps of so many problems in the order of the samples."""
    groups = [list(group) for _, group in groupby(samples, key=lambda s: s.problem_id)]
    steps = [groups[start : start + problems] for start in range(0, len(groups), problems)]
    squares = []
    for step in steps:
        gradient = loss_gradient(scorer, [s for group in step for s in group], averaging, token_losses)
        squares.append({name: own.double().square() / len(steps) for name, own in gradient.items()})
    return {name: 1 / (own.sqrt() + EPSILON) for name, own in total(squares).items()}


def _sign(number: float) -> float:
    return math.copysign(1.0, number) if number else 0.0
