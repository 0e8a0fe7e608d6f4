"""TracIn at the policy that the update starts from: which samples' gradients point along the validation gradient.

    L_i   = -A_i w_i Σ_t log p_it / N          a sample's part of the GRPO loss while the ratio is 1
    L_val = -Σ_j A_j Σ_t log p_jt / M          over the validation samples: its gradient is that of the expected reward
    influence_i = ⟨∇L_i, ∇L_val⟩               over the LoRA factors (Pruthi et al. 2020)

M is all their tokens. So is N, and w is 1; where `update.loss` gives completions or a constant the weight, these are
what tasks/objective/token_weights.py says. At ratio 1 every surrogate, with the ratio of tokens or of completions, has
the gradient -A ∇ log p.

Both are losses, so a step θ - η ∇L_i changes L_val by -η · influence_i: above 0 helps. This leaves three parts of the
update's loss out: ratios other than 1 and their clipping, which occur after the first step; the KL term, whose gradient
is 0 only while the policy is its reference; and the entropy bonus. The stage `select` measures at the first step and
leaves them out. With influences(…, token_losses=…) L_i is complete, and L_val stays the same:

    L_i   = w_i Σ_t l_it / N                   l_it from tasks/ppo/losses.py, for instance

The measures:

    dot      influence_i as above, which is what Pruthi et al. call TracIn
    local    sign(A_i) x_i with x_i = Σ_j A_j max(0, cos(s_i, s_j))³ and s = ∇ Σ_t log p: a validation sample counts for
             the samples similar to it, so that families of problems cannot outvote each other. x is less half of its
             mean over the sample's group and half of that over the batch, both weighted by |advantage| before
             negative_weight: the part that all completions' gradients share separates no good completion from a bad
             one. With the group's mean alone, half of each group whose rewards are all wrong would be kept; with the
             batch's alone, the rare success on a hard problem would be dropped for its resemblance to failures

Where the training batch is its own validation, a sample's own part of ∇L_val decides its influence nearly alone. Its
vote, and that of equal completions, can be left out: ⟨∇L_i, ∇L_val - w_i s_i⟩ (`leave_out="own"`). With
`leave_out="group"` no sample of its problem counts.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tasks.errors import GraftError
from tasks.model.distributed.collectives import all_gather
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.objective.token_weights import TokenWeights
from tasks.params.fields import Similarity
from tasks.select.gradient_passes import GradientPasses, GradientSum, LayerVisit
from tasks.select.kernel import KernelSums
from tasks.select.losses import (
    GradientRow,
    TokenLossFunction,
    Validation,
    row_of,
    score_weights,
    token_loss_weights,
)
from tasks.select.sample_gradients import Direction, SampleGradients, products, row_products, squared_norms

BUDGET = 2**30
"""Bytes for gradients of single samples in memory."""


@dataclass(frozen=True)
class Estimator:
    """How influence is estimated: the similarity, whose votes are left out, and the bytes for gradients in memory."""

    similarity: Similarity = "dot"
    leave_out: Literal["own", "group"] | None = None
    budget: int = BUDGET


@dataclass(frozen=True)
class SampleInfluence:
    """A sample's influence; ⟨∇L_i, ∇L_val⟩, which `dot` calls influence; and ‖∇L_i‖."""

    influence: float | None
    product: float | None
    gradient_norm: float | None


NOT_MEASURED = SampleInfluence(None, None, None)
NO_SIGNAL = SampleInfluence(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Influences:
    """The influence of each sample, in order, ∇L_val, and Σ_i ∇L_i of the samples themselves."""

    samples: list[SampleInfluence]
    gradient: Direction
    train_gradient: Direction


@dataclass(frozen=True)
class _Projection:
    """A row's gradient g: ‖g‖ and ⟨g, ∇L_val⟩."""

    norm: float
    product: float


def influences(
    scorer: Scorer,
    samples: Sequence[Sample],
    averaging: TokenWeights,
    validation: Validation,
    estimator: Estimator = Estimator(),
    mean_weights: Sequence[float] | None = None,
    token_losses: TokenLossFunction | None = None,
    step_samples: Sequence[Sample] | None = None,
    cached: GradientPasses | None = None,
) -> Influences:
    """Influence of each sample, in order; 0, without computing it, where its advantage is 0.

    `mean_weights` [n] weigh the samples in the means that `local` subtracts: |advantage| before the update scaled it;
    by default |advantage|. With `token_losses` the influence of ∇ of these is measured instead of that of A ∇ log p;
    `local` compares completions by ∇ log p and raises GraftError. N is that of a step on `step_samples`, by default on
    the samples. `cached`: from `cached_gradients` of the same validation, which serves several calls.

    A pass over the validation samples makes the direction, and a pass over the samples the products, both layer by
    layer, so that no sample's gradient is in memory. `local`, and votes without the own group, keep gradients within
    `estimator.budget` bytes: they pass over the samples once for each part of the validation samples that fits. Several
    processes compute a share each, and all return the same.
    """
    local = estimator.similarity == "local"
    in_pairs = local or estimator.leave_out == "group"
    if token_losses and local:
        raise GraftError(
            "influence.similarity: local compares completions by ∇ Σ log p, which is not the gradient of the token "
            "losses that are given; set it to dot"
        )
    weights = (token_loss_weights if token_losses else score_weights)(samples, averaging, step_samples)
    mean_weights = [abs(s.advantage) for s in samples] if mean_weights is None else mean_weights
    mean_weights = mean_weights if local else [0.0] * len(samples)
    if in_pairs:
        cached = cached or cached_gradients(scorer, validation, estimator.budget)
    direction = validation_gradient(scorer, validation, estimator.budget, cached)
    rows = [s for s, a, w in zip(samples, weights, mean_weights, strict=True) if a or w]
    # Where the batch is its own validation, the gradients in memory are those of the samples, too.
    has_them = cached and token_losses is None and cached.has(rows)
    passes = cached if cached and has_them else GradientPasses(scorer, rows, estimator.budget, token_losses)
    sums = None
    if in_pairs and cached:
        sums = KernelSums(validation, cached, estimator.similarity, passes.row_of, estimator.leave_out == "group")
    projections, paired, train_gradient = _project(passes, direction, passes.sum_by_row(samples, weights), sums)
    votes = dict[GradientRow, float]()
    if estimator.leave_out == "own":
        votes = _own_votes(scorer, passes, rows, validation, estimator, projections)
    keys = [passes.row_of(s) for s in samples]
    of_row = paired if in_pairs else {row: projection.product for row, projection in projections.items()}
    x = [of_row.get(key, 0.0) - votes.get(key, 0.0) for key in keys]
    means, scores = shared_means(samples, x, mean_weights), [NO_SIGNAL] * len(samples)
    for place, (a, value, mean, key) in enumerate(zip(weights, x, means, keys, strict=True)):
        if a and (projection := projections.get(key)):
            # Weights of losses are below 0 for good completions, both here and in x: alike ones give more than 0.
            influence = math.copysign(1.0, a) * (value - mean) if local else a * value
            scores[place] = SampleInfluence(influence, a * projection.product, abs(a) * projection.norm)
    return Influences(scores, direction, train_gradient)


def _own_votes(
    scorer: Scorer,
    passes: GradientPasses,
    rows: Sequence[Sample],
    validation: Validation,
    estimator: Estimator,
    projections: Mapping[GradientRow, _Projection],
) -> dict[GradientRow, float]:
    """The part of x of each row that its own completion adds: its weight in ∇L_val times k(g, s)."""
    if passes.token_losses is None:  # then g is s: its cosine with itself is 1, its product ‖g‖²
        kernel = {row: 1.0 if estimator.similarity == "local" else p.norm**2 for row, p in projections.items()}
    else:  # ⟨∇ Σ l, ∇ Σ log p⟩: another pass for each
        scores = GradientPasses(scorer, rows, estimator.budget, lambda _, scored: scored.logprobs)
        local = [
            (passes.row_of(s), product)
            for block, score_block in zip(passes, scores, strict=True)
            for s, product in zip(block.rows, row_products(block.matrix, score_block.matrix), strict=True)
        ]
        kernel = {row: product for part in all_gather(local) for row, product in part}
    weights = validation.row_weights
    by_row = {passes.row_of(s): weights.get(row_of(s), 0.0) for s in rows}
    return {row: by_row[row] * k for row, k in kernel.items()}


def validation_gradient(
    scorer: Scorer, validation: Validation, budget: int = BUDGET, cached: GradientPasses | None = None
) -> Direction:
    """∇L_val; zero where no validation sample has a signal. `cached`: passes over those that have one."""
    passes = cached if cached and cached.fits else GradientPasses(scorer, validation.samples_with_signal, budget)
    return passes.gradient(passes.sum_by_row(validation.samples, validation.score_weights))


def cached_gradients(scorer: Scorer, validation: Validation, budget: int) -> GradientPasses:
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


def _project(
    passes: GradientPasses, direction: Direction, weights: Mapping[GradientRow, float], kernel: KernelSums | None
) -> tuple[dict[GradientRow, _Projection], dict[GradientRow, float], Direction]:
    """The projections of all rows of all processes, their kernel sums if they are asked for, and Σ weight · g."""
    projections, total, sums = dict[GradientRow, _Projection](), GradientSum(passes, weights), list[Tensor]()

    def visit(rows: Sequence[Sample], gradients: SampleGradients) -> None:
        total.add(rows, gradients)
        sums.append(torch.stack([squared_norms(gradients), products(gradients, direction)]))

    for rows in _blocks_through(kernel, passes, visit) if kernel else passes.by_layer(visit):
        # Added up on the device: a copy to the CPU for each layer would wait for it each time.
        squares, along = torch.stack(sums).sum(0)
        numbers = zip(map(passes.row_of, rows), squares.sqrt().tolist(), along.tolist(), strict=True)
        projections |= {row: _Projection(norm, product) for row, norm, product in numbers}
        sums.clear()
    paired = {row: kernel.of(row) for row in projections} if kernel else {}
    gathered = all_gather((projections, paired))
    return (
        {row: projection for part, _ in gathered for row, projection in part.items()},
        {row: x for _, part in gathered for row, x in part.items()},
        total.gathered(),
    )


def _blocks_through(kernel: KernelSums, passes: GradientPasses, visit: LayerVisit) -> Iterator[Sequence[Sample]]:
    """All rows once, after `visit`; they are added to `kernel` once for each of its parts."""
    more = kernel.next_part()
    for block in passes:
        if more:
            kernel.add(block)
        visit(block.rows, block.gradients)
        yield block.rows
    while more and kernel.next_part():
        for block in passes:
            kernel.add(block)
