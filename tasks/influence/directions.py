"""What samples are measured by: ∇L_val, the direction that is made of unit gradients, and Adam's scale."""

import math
from collections.abc import Sequence
from itertools import groupby

from tasks.influence.gradient_algebra import sum_directions, unit_rows, weighted_sum
from tasks.influence.gradient_passes import GradientPasses
from tasks.influence.loss_gradients import Row, TokenLosses, Validation, loss_gradient
from tasks.influence.sample_gradients import Direction, lora_factors
from tasks.model.distributed.collectives import all_reduce_sum
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.objective.token_weights import TokenWeights

EPSILON = 1e-8
"""Adam's."""


def validation_directions(
    scorer: Scorer,
    passes: GradientPasses,
    validation: Validation,
    votes: Sequence[float],
    counts: Sequence[float],
    shortened: bool,
    judges: GradientPasses | None,
) -> tuple[Direction, Direction]:
    """∇L_val, to which the samples' scores give their `votes`; and D, to which they give their `counts`, if `shortened`
    at length 1. `judges` may keep the scores that vote, `passes` in the same batch will."""
    import torch

    voting = [s for s, c in zip(validation.samples, votes, strict=True) if c]
    if judges and judges.hold(voting):
        passes = judges
    elif validation.same_batch and passes.fit:
        passes.keep()
    elif shortened and voting:
        passes = GradientPasses(scorer, voting, passes.budget)
    else:
        plain = validation.gradient(scorer)
        return plain, plain
    sums, shares = (sum_by_row(passes, validation.samples, numbers) for numbers in (votes, counts))
    plain_parts, used_parts = [], []
    for part in passes:
        keys = [passes.row_of(s) for s in part.rows]
        own, used = (torch.tensor([of.get(key, 0.0) for key in keys], dtype=torch.float64) for of in (sums, shares))
        plain_parts.append(weighted_sum(part.votes, own))
        if shortened:
            used_parts.append(weighted_sum(unit_rows(part.votes), used))
    plain = _added_up(plain_parts, scorer, passes.shared)
    return plain, _added_up(used_parts, scorer, passes.shared) if shortened else plain


def _added_up(parts: Sequence[Direction], scorer: Scorer, shared: bool) -> Direction:
    """The sum of what all processes have found, if each has a share."""
    import torch

    factors = {name: module.weight for name, module in lora_factors(scorer.model).items()}
    none = {name: torch.zeros_like(w, dtype=torch.promote_types(w.dtype, torch.float32)) for name, w in factors.items()}
    found = sum_directions([none, *parts])  # one without a share has no parts
    return dict(zip(found, all_reduce_sum(list(found.values())), strict=True)) if shared else found


def sum_by_row(passes: GradientPasses, samples: Sequence[Sample], numbers: Sequence[float]) -> dict[Row, float]:
    """The sum of the numbers of each row's samples."""
    sums = dict[Row, float]()
    for sample, number in zip(samples, numbers, strict=True):
        sums[passes.row_of(sample)] = sums.get(passes.row_of(sample), 0.0) + number
    return sums


def adam_scale(
    scorer: Scorer, samples: Sequence[Sample], averaging: TokenWeights, problems: int, token_losses: TokenLosses | None
) -> Direction:
    """P, from steps of so many problems in the order of the samples."""
    groups = [list(group) for _, group in groupby(samples, key=lambda s: s.problem_id)]
    steps = [groups[start : start + problems] for start in range(0, len(groups), problems)]
    squares = []
    for step in steps:
        gradient = loss_gradient(scorer, [s for group in step for s in group], averaging, token_losses)
        squares.append({name: own.double().square() / len(steps) for name, own in gradient.items()})
    return {name: 1 / (own.sqrt() + EPSILON) for name, own in sum_directions(squares).items()}


def sign(number: float) -> float:
    """-1, 0 or 1."""
    return math.copysign(1.0, number) if number else 0.0
