"""Directions that samples are projected on: ∇L_val, and the sum of normalized gradients."""

import math
from collections.abc import Sequence

from tasks.model.distributed.collectives import all_reduce_sum
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.select.gradient_algebra import sum_directions, unit_rows, weighted_sum
from tasks.select.gradient_passes import GradientPasses
from tasks.select.losses import Row, Validation
from tasks.select.sample_gradients import Direction, lora_factors


def validation_directions(
    scorer: Scorer,
    passes: GradientPasses,
    validation: Validation,
    in_direction: Sequence[float],
    normalized: bool,
    cached: GradientPasses | None,
) -> tuple[Direction, Direction]:
    """∇L_val, and D = Σ_j in_direction_j s_j with s of length 1 if `normalized`, else D = ∇L_val.

    `cached` may hold the gradients already; in the same batch `passes` may cache them here.
    """
    import torch

    in_loss = validation.score_weights
    with_weight = [s for s, c in zip(validation.samples, in_loss, strict=True) if c]
    if cached and cached.has_cached(with_weight):
        passes = cached
    elif validation.same_batch and passes.fits:
        passes.cache()
    elif normalized and with_weight:
        passes = GradientPasses(scorer, with_weight, passes.budget)
    else:
        plain = validation.gradient(scorer)
        return plain, plain
    loss_sums, direction_sums = (sum_by_row(passes, validation.samples, w) for w in (in_loss, in_direction))
    plain_parts, used_parts = [], []
    for block in passes:
        rows = [passes.row_of(s) for s in block.rows]
        plain_weights, used_weights = (
            torch.tensor([sums.get(row, 0.0) for row in rows], dtype=torch.float64)
            for sums in (loss_sums, direction_sums)
        )
        plain_parts.append(weighted_sum(block.scores, plain_weights))
        if normalized:
            used_parts.append(weighted_sum(unit_rows(block.scores), used_weights))
    plain = add_up(plain_parts, scorer, passes.shared)
    return plain, add_up(used_parts, scorer, passes.shared) if normalized else plain


def add_up(parts: Sequence[Direction], scorer: Scorer, shared: bool) -> Direction:
    """The sum of the parts, and over the processes if each has a share; 0 of no parts."""
    import torch

    factors = {name: module.weight for name, module in lora_factors(scorer.model).items()}
    none = {name: torch.zeros_like(w, dtype=torch.promote_types(w.dtype, torch.float32)) for name, w in factors.items()}
    found = sum_directions([none, *parts])  # a process without a share has no parts
    return dict(zip(found, all_reduce_sum(list(found.values())), strict=True)) if shared else found


def sum_by_row(passes: GradientPasses, samples: Sequence[Sample], numbers: Sequence[float]) -> dict[Row, float]:
    """The sum of the numbers of each row's samples."""
    sums = dict[Row, float]()
    for sample, number in zip(samples, numbers, strict=True):
        sums[passes.row_of(sample)] = sums.get(passes.row_of(sample), 0.0) + number
    return sums


def sign(number: float) -> float:
    """-1, 0 or 1."""
    return math.copysign(1.0, number) if number else 0.0
