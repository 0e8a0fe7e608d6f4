"""TracIn at the policy that the update starts from: which samples' gradients point along the validation gradient.

    L_i   = -A_i w_i Σ_t log p_it / N          a sample's part of the GRPO loss while the ratio is 1
    L_val = -Σ_j c_j Σ_t log p_jt / M          over the validation samples; losses.py says what c may be
    influence_i = ⟨∇L_i, ∇L_val⟩               over the LoRA factors (Pruthi et al. 2020)

M is all their tokens. So is N, and w is 1; where `update.loss` gives completions or a constant the weight, these are
what tasks/objective/token_weights.py says. At ratio 1 every surrogate, with the ratio of tokens or of completions, has
the gradient -A ∇ log p.

Both are losses, so a step θ - η ∇L_i changes L_val by -η · influence_i: above 0 helps. This leaves three parts of the
update's loss out: ratios other than 1 and their clipping, which occur after the first step; the KL term, whose gradient
is 0 only while the policy is its reference; and the entropy bonus. The stage `select` measures at the first step and
leaves them out. With influences(…, token_losses=…) L_i is complete, and L_val stays the same:

    L_i   = w_i Σ_t l_it / N                   l_it from tasks/objective/losses.py, for instance

The measures:

    cosine   Σ_j ⟨∇L_i / ‖∇L_i‖, ∇L_j / ‖∇L_j‖⟩ / n over the n validation samples: length gives none of them more weight
             (LESS, Xia et al. 2024)
    local    sign(A_i) x_i with x_i = Σ_j c_j max(0, cos(s_i, s_j))³ and s = ∇ Σ_t log p: a validation sample counts for
             the samples similar to it, so that families of problems cannot outvote each other. x is less half of its
             mean over the sample's group and half of that over the batch, both weighted by |advantage| before
             negative_weight: the part that all completions' gradients share separates no good completion from a bad
             one. With the group's mean alone, half of each group whose rewards are all wrong would be kept; with the
             batch's alone, the rare success on a hard problem would be dropped for its resemblance to failures

With the n training samples as their own validation, by the update's own loss, mean influence = ‖∇L_val‖² / n ≥ 0 for
any samples: self-influence would be most of the influence in a batch of unlike problems, so it is left out.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.errors import GraftError
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.objective.token_weights import TokenWeights
from tasks.params.fields import Similarity
from tasks.select.directions import add_up, sign, sum_by_row, validation_directions
from tasks.select.gradient_algebra import sum_directions
from tasks.select.gradient_passes import GradientPasses
from tasks.select.local_similarity import LocalSimilarity
from tasks.select.losses import TokenLosses, Validation, score_weights, token_loss_weights
from tasks.select.projections import GradientSum, Projection, Projector, project
from tasks.select.sample_gradients import Direction

BUDGET = 2**30
"""Bytes for gradients of single samples in memory."""


@dataclass(frozen=True)
class Measure:
    """Options of influence. In the same batch a sample's influence on itself, which outweighs that on the others, does
    not count; nor, with `leave_group_out`, that on its group."""

    leave_group_out: bool = False
    similarity: Similarity = "dot"
    budget: int = BUDGET


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
    """The influence of each sample, in order, ∇L_val, and Σ_i ∇L_i of the samples themselves."""

    each: list[SampleInfluence]
    gradient: Direction
    train_gradient: Direction


@dataclass(frozen=True)
class Products:
    """Samples on the validation gradient, before the means that `local` subtracts; all lists [n]."""

    samples: Sequence[Sample]
    weights: list[float]  # of the samples' gradients in the update's loss
    mean_weights: Sequence[float]
    products: list[float]
    projections: list[Projection | None]  # None where no gradient was computed
    gradient: Direction
    train_gradient: Direction


def influences(
    scorer: Scorer,
    samples: Sequence[Sample],
    averaging: TokenWeights,
    validation: Validation,
    measure: Measure = Measure(),
    mean_weights: Sequence[float] | None = None,
    token_losses: TokenLosses | None = None,
    cached: GradientPasses | None = None,
    step_samples: Sequence[Sample] | None = None,
) -> Influences:
    """Influence of each sample, in order; 0, without computing it, where its advantage is 0.

    `mean_weights` [n] weigh the samples in the means that `local` subtracts: |advantage| before the update scaled it;
    by default |advantage|. N is that of steps on `step_samples`, by default these samples. With `token_losses` the
    influence of ∇ of these is measured instead of that of A ∇ log p; `local` compares completions by ∇ log p and raises
    GraftError.

    One pass makes the direction; a second one computes the products layer by layer, so that no sample's gradient is in
    memory. Gradients are in memory, within `measure.budget` bytes, where one pass does for both because all of the same
    batch fit; where groups are left out (GraftError if one does not fit); for the direction of cosines; for the
    self-influence against token losses; and for `local`, which passes over the samples once for each budget's worth of
    validation samples. `cached`, from `cache_validation_gradients`, serves all calls with the same validation. Several
    processes compute a share each, and all return the same.
    """
    given = (mean_weights, token_losses, cached, step_samples)
    return centre([measure_products(scorer, samples, averaging, validation, measure, *given)], measure)


def measure_products(
    scorer: Scorer,
    samples: Sequence[Sample],
    averaging: TokenWeights,
    validation: Validation,
    measure: Measure,
    mean_weights: Sequence[float] | None = None,
    token_losses: TokenLosses | None = None,
    cached: GradientPasses | None = None,
    step_samples: Sequence[Sample] | None = None,
) -> Products:
    """The part of `influences` that computes gradients, with the same arguments."""
    local, cosine = measure.similarity == "local", measure.similarity == "cosine"
    if token_losses and local:
        raise GraftError(
            "influence.similarity: local compares completions by ∇ Σ log p, which is not the gradient of the token "
            "losses that are given; take dot or cosine"
        )
    own = (token_loss_weights if token_losses else score_weights)(samples, averaging, step_samples)
    in_loss = validation.score_weights
    in_direction = [sign(c) / len(in_loss) for c in in_loss] if cosine else in_loss
    of_samples = in_direction if validation.same_batch else [0.0] * len(samples)
    mean_weights = [abs(s.advantage) for s in samples] if mean_weights is None else mean_weights
    mean_weights = mean_weights if local else [0.0] * len(samples)
    rows = [s for s, a, c, w in zip(samples, own, of_samples, mean_weights, strict=True) if a or c or w]
    groups = validation.same_batch and measure.leave_group_out
    similarity = None
    if local:
        cached = cached or cache_validation_gradients(scorer, validation, measure.budget)
        similarity, groups = LocalSimilarity(validation, cached, groups), False
    if cached and cached.has_cached(rows) and not (token_losses or groups):
        passes = cached
    else:
        passes = GradientPasses(scorer, rows, measure.budget, groups, token_losses, scores=validation.same_batch)
    plain, used = validation_directions(scorer, passes, validation, in_direction, cosine, cached)
    weights = sum_by_row(passes, validation.samples, in_direction) if groups else {}
    in_memory = bool(token_losses and validation.same_batch and not measure.leave_group_out)
    total = GradientSum(passes, sum_by_row(passes, samples, own))
    projections = project(passes, Projector(plain, used, weights, cosine), total, similarity, in_memory)
    products = [
        _without_own(c, projections[passes.row_of(s)], measure) if a or w else 0.0
        for s, a, c, w in zip(samples, own, of_samples, mean_weights, strict=True)
    ]
    measured = [
        projections[passes.row_of(s)] if a or w else None for s, a, w in zip(samples, own, mean_weights, strict=True)
    ]
    summed = add_up([total.parts], scorer, passes.shared)
    return Products(samples, own, mean_weights, products, measured, plain, summed)


def centre(parts: Sequence[Products], measure: Measure) -> Influences:
    """The influences of the samples of all parts, in order; every group is within one part."""
    samples = [s for part in parts for s in part.samples]
    products = [x for part in parts for x in part.products]
    means = shared_means(samples, products, [w for part in parts for w in part.mean_weights])
    weights = [a for part in parts for a in part.weights]
    projections = [projection for part in parts for projection in part.projections]
    each = [
        _influence(a, x - mean, projection, measure.similarity != "dot") if a and projection else NO_SIGNAL
        for a, x, mean, projection in zip(weights, products, means, projections, strict=True)
    ]
    return Influences(each, parts[0].gradient, sum_directions([part.train_gradient for part in parts]))


def cache_validation_gradients(scorer: Scorer, validation: Validation, budget: int) -> GradientPasses:
    """The validation samples' gradients, in every process; cached if they fit in `budget` bytes."""
    passes = GradientPasses(scorer, validation.samples_with_signal, budget, shared=False)
    passes.cache()
    return passes


def shared_means(samples: Sequence[Sample], products: Sequence[float], mean_weights: Sequence[float]) -> list[float]:
    """The mean of a sample's group and that of the batch, half and half; all [n].

    Means are weighted by `mean_weights`, and 0 where these are.
    """
    totals, weights = defaultdict[str | None, float](float), defaultdict[str | None, float](float)
    for sample, x, weight in zip(samples, products, mean_weights, strict=True):
        for name in (sample.problem_id, None):  # None: the batch
            totals[name] += weight * x
            weights[name] += weight
    means = {name: totals[name] / weights[name] if weights[name] else 0.0 for name in totals}
    return [(means[s.problem_id] + means[None]) / 2 for s in samples]


def _without_own(c: float, projection: Projection, measure: Measure) -> float:
    """⟨ĝ, D⟩ without the terms that are left out; c is the weight of the sample's ŝ in D."""
    if measure.leave_group_out:
        return projection.used - projection.group
    return projection.used - c * projection.own


def _influence(a: float, product: float, projection: Projection, unit: bool) -> SampleInfluence:
    """Influence of a sample whose g has the weight a in the update's loss."""
    return SampleInfluence((sign(a) if unit else a) * product, a * projection.plain, abs(a) * projection.norm)
