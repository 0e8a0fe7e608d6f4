"""Two losses on the samples of one step, at the same weights: their values, KL estimates and gradients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.model.scoring.scorer import Scorer
from tasks.objective.recorded_logprobs import Logprobs, behaviour_logprobs
from tasks.params.update import Update
from tasks.update.diagnostics.one_step import PARTS, Part, gradient_norm, gradient_of, part_of
from tasks.update.gradient import TokenSums
from tasks.update.step_plan import UpdateGroup

if TYPE_CHECKING:
    from torch import Tensor

Side = tuple[Sequence[UpdateGroup], Update]
"""The groups with the denominators of a loss, and its params."""


@dataclass(frozen=True)
class LossValues:
    """One side. `kl`: the mean estimate of a token; `norms`: of the gradient and of its parts."""

    title: str
    loss: float
    policy_loss: float
    kl_loss: float
    kl: float
    norms: dict[Part, float]


@dataclass(frozen=True)
class LossComparison:
    """Two losses; None where a gradient is 0.

    `cosines` of the gradients and of their parts; `differences`: ‖second - first‖ / ‖first‖.
    """

    sides: tuple[LossValues, LossValues]
    cosines: dict[Part, float | None]
    differences: dict[Part, float | None]


def compare_losses(scorer: Scorer, first: Side, second: Side, reference: Logprobs | None) -> LossComparison | None:
    """The losses on the same samples; None where nothing has an advantage. The weights do not change.

    `reference`: log-probabilities of all samples by the reference, None where beta is 0.
    """
    samples = [sample for group in first[0] for sample in group.samples]
    if not samples:
        return None
    behaviour = behaviour_logprobs(scorer, samples)
    norms: tuple[dict[Part, float], dict[Part, float]] = ({}, {})
    cosines, differences = dict.fromkeys(PARTS), dict.fromkeys(PARTS)
    found: list[TokenSums] = []
    for part in PARTS:
        if part == "kl" and reference is None:
            norms[0][part] = norms[1][part] = 0.0
            continue
        gradients = []
        for groups, params in (first, second):
            taken = part_of(part, groups, reference, params)
            gradient, sums = gradient_of(scorer, taken.groups, behaviour, taken.reference, taken.params)
            gradients.append(gradient)
            found += [sums] if part == "whole" else []
        ours, theirs = gradients
        norms[0][part], norms[1][part] = gradient_norm(ours), gradient_norm(theirs)
        if norms[0][part] and norms[1][part]:
            cosines[part] = _dot(ours, theirs) / norms[0][part] / norms[1][part]
            moved = {name: theirs[name] - weight for name, weight in ours.items()}
            differences[part] = gradient_norm(moved) / norms[0][part]
    scorer.model.zero_grad()
    return LossComparison(
        (_values(first[1], found[0], norms[0]), _values(second[1], found[1], norms[1])), cosines, differences
    )


def _values(params: Update, sums: TokenSums, norms: dict[Part, float]) -> LossValues:
    title = f"{params.loss}, {params.kl}" + (" corrected" if params.kl_correction else "")
    return LossValues(title, sums.loss, sums.policy_loss, sums.kl_loss, sums.kl / max(sums.tokens, 1), norms)


def _dot(one: "Mapping[str, Tensor]", other: "Mapping[str, Tensor]") -> float:
    """In float64."""
    return float(sum(float((part.double() * other[name].double()).sum()) for name, part in one.items()))
