"""TracIn at the policy that the update starts from: which samples push the way that validation asks for.

    L_i   = -A_i w_i Σ_t log p_it / N          a sample's part of the GRPO loss while the ratio is 1
    L_val = -Σ_j c_j w_j Σ_t log p_jt / M      over the validation samples; validation_losses.py says what c may be
    influence_i = ⟨∇L_i, ∇L_val⟩               over the LoRA factors (Pruthi et al. 2020)

w is 1, N and M are all their tokens; where `grpo.loss` gives completions or a constant the weight, they are what
tasks/objective/token_weights.py says. At ratio 1 no more is left of the losses: every surrogate, with the ratio of
tokens or of completions, has the gradient -A ∇ log p there.

Both are losses, so a step θ - η ∇L_i changes L_val by -η · influence_i: above 0 helps. Of the update's loss this leaves
out ratios other than 1, and with them clipping: at its first step there are none where the policy itself sampled, later
there are; the KL term, whose gradient is 0 only while the policy is its reference; and the entropy bonus. The stage
`select` leaves them out: it measures where the update's first step is taken. With influences(…, token_losses=…) nothing
is left out of L_i, and L_val stays as it is:

    L_i   = w_i Σ_t l_it / N                   l_it from tasks/objective/losses.py, for instance

Adam's rescaling of the step is left out unless it is asked for. The measures:

    cosine   Σ_j ⟨∇L_i / ‖∇L_i‖, ∇L_j / ‖∇L_j‖⟩ / n over the n validation samples: no vote weighs more for its length
             (LESS, Xia et al. 2024)
    centred  cosine, less half of its mean over the sample's group and half of that over the batch, both weighted by
             |advantage| as it is before negative_weight: what all completions' gradients have in common says nothing
             of which is better. With the group alone, groups in which all rewards err would keep half of them; with
             the batch alone, the rare success on a hard problem would be dropped for its like that failed. As the
             advantages of a group sum up to 0, it takes nothing from the group's influence as a whole
    local    sign(A_i) Σ_j c_j max(0, cos(s_i, s_j))³ with s = ∇ Σ_t log p, centred likewise: a validation sample speaks
             for what is like it. One direction for all lets families of problems outvote each other, and what
             completions have in common drowns what tells them apart
    adam     ⟨∇L_i, P ∇L_val⟩ with P = 1 / (√v + ε), v the mean square of the round's steps' gradients: what Adam's
             step does, without its momentum, which is the same for all samples

With the n training samples as their own validation, by the update's own loss, mean influence = ‖∇L_val‖² / n ≥ 0
whatever they are: every sample votes for itself too, which is most of its influence in a batch of unlike problems,
unless it is left out.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.errors import GraftError
from tasks.influence.directions import adam_scale, sign, sum_by_row, validation_directions
from tasks.influence.gradient_algebra import rescale
from tasks.influence.gradient_passes import GradientPasses
from tasks.influence.local_similarity import LocalSimilarity
from tasks.influence.loss_gradients import TokenLosses, Validation, score_weights, token_loss_weights
from tasks.influence.projections import Projection, Projector, project
from tasks.influence.sample_gradients import Direction
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.objective.token_weights import TokenWeights
from tasks.params.fields import Similarity

BUDGET = 2**30
"""Bytes that gradients of single samples may take where they are held."""


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
class SampleInfluence:
    """A sample's influence; ⟨∇L_i, ∇L_val⟩ with nothing left out or rescaled; and ‖∇L_i‖."""

    influence: float | None
    product: float | None
    gradient_norm: float | None


NOT_MEASURED = SampleInfluence(None, None, None)
NO_SIGNAL = SampleInfluence(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Influences:
    """What was measured of each sample, in order, and ∇L_val."""

    each: list[SampleInfluence]
    gradient: Direction


def influences(
    scorer: Scorer,
    samples: Sequence[Sample],
    averaging: TokenWeights,
    validation: Validation,
    measure: Measure = Measure(),
    shares: Sequence[float] | None = None,
    token_losses: TokenLosses | None = None,
    judges: GradientPasses | None = None,
    stepped: Sequence[Sample] | None = None,
) -> Influences:
    """Influence of each sample, in order; 0, with no computing, where its advantage is 0.

    Adam's scale is that of steps on these samples, or on those that are `stepped`.

    `shares` [n] are what the samples weigh in the mean that `centred` takes off: the size of the advantage as it was
    before the update scaled it; by default as it is. With `token_losses` it is ∇ of these, and not A ∇ log p, whose
    influence is measured; `centred` and `local` compare completions by the latter and raise GraftError.

    One pass gives the direction and another is heard layer by layer, in which no sample's gradient is held. Held, in
    `measure.budget` bytes, they are where one pass does for both because all of the same batch fit; where groups are
    left out, and GraftError is raised where one does not fit; for the direction of cosines; for a sample's own vote
    against token losses; and for `local`, which goes through the samples again for each budget's worth of validation
    samples. `judges`, from `cache_validation_gradients`, serve all calls with the same validation samples. Several processes go through
    a share each, and all find the same.
    """
    if token_losses and measure.centred:
        raise GraftError(
            f"influence.similarity: {measure.similarity} compares completions by ∇ Σ log p, which is not the gradient "
            "of the token losses that are given; take dot or cosine"
        )
    own = token_loss_weights(samples, averaging) if token_losses else score_weights(samples, averaging)
    votes = validation.score_weights
    counts = [sign(c) / len(votes) for c in votes] if measure.shortened else votes
    given = counts if validation.same_batch else [0.0] * len(samples)
    shares = [abs(s.advantage) for s in samples] if shares is None else shares
    shares = shares if measure.centred else [0.0] * len(samples)
    rows = [s for s, a, c, share in zip(samples, own, given, shares, strict=True) if a or c or share]
    groups = validation.same_batch and measure.leave_group_out
    steps = samples if stepped is None else stepped
    scale = adam_scale(scorer, steps, averaging, measure.adam, token_losses) if measure.adam else None
    likeness = None
    if measure.similarity == "local":
        judges = judges or cache_validation_gradients(scorer, validation, measure.budget)
        likeness, groups = LocalSimilarity(validation, votes, judges, groups, scale), False
    if judges and judges.hold(rows) and not (token_losses or groups):
        passes = judges
    else:
        passes = GradientPasses(scorer, rows, measure.budget, groups, token_losses, votes=validation.same_batch)
    plain, used = validation_directions(scorer, passes, validation, votes, counts, measure.shortened, judges)
    used = rescale(used, scale)
    weights = sum_by_row(passes, validation.samples, counts) if groups else {}
    held = bool(token_losses and validation.same_batch and measure.exclude_self)
    heard = project(passes, Projector(plain, used, scale, weights, measure.shortened), likeness, held)
    found = [
        _counted(c, heard[passes.row_of(s)], measure) if a or share else 0.0
        for s, a, c, share in zip(samples, own, given, shares, strict=True)
    ]
    common = shared_means(samples, found, shares)
    each = [
        _scored(a, x - c, heard[passes.row_of(s)], measure.similarity != "dot") if a else NO_SIGNAL
        for s, a, x, c in zip(samples, own, found, common, strict=True)
    ]
    return Influences(each, plain)


def cache_validation_gradients(scorer: Scorer, validation: Validation, budget: int) -> GradientPasses:
    """The validation samples' gradients, in every process: kept if they fit in `budget` bytes."""
    passes = GradientPasses(scorer, validation.samples_with_signal, budget, shared=False)
    passes.keep()
    return passes


def shared_means(samples: Sequence[Sample], found: Sequence[float], shares: Sequence[float]) -> list[float]:
    """What a sample's number is compared with: its group's mean and the batch's, half and half; all [n].

    Means are weighted by `shares` and 0 where these are.
    """
    totals, weights = defaultdict[str | None, float](float), defaultdict[str | None, float](float)
    for sample, x, share in zip(samples, found, shares, strict=True):
        for whole in (sample.problem_id, None):
            totals[whole] += share * x
            weights[whole] += share
    means = {whole: totals[whole] / weights[whole] if weights[whole] else 0.0 for whole in totals}
    return [(means[s.problem_id] + means[None]) / 2 for s in samples]


def _counted(c: float, heard: Projection, measure: Measure) -> float:
    """⟨ĝ, P D⟩ less the votes that are left out; c is what the sample's ŝ weighs in D."""
    if measure.leave_group_out:
        return heard.used - heard.group
    if measure.exclude_self:
        return heard.used - c * heard.own
    return heard.used


def _scored(a: float, counted: float, heard: Projection, unit: bool) -> SampleInfluence:
    """Of a sample whose g weighs a in the update's loss."""
    return SampleInfluence((sign(a) if unit else a) * counted, a * heard.plain, abs(a) * heard.norm)
