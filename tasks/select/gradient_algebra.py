"""Influence as arithmetic on the samples' score gradients s_i = ∇ Σ_t log p_it, [B, P] in parts.

Products and squared norms are sums over the parts, the LoRA factors: those of some factors are what these give.

At ratio 1 the gradient of a sample's part of every GRPO loss is a_i s_i, and that of every validation loss over
completions Σ_j b_j s_j, with numbers a and b alone. So one pass for s serves them all:

    influence                a_i ⟨s_i, g⟩, where g = Σ_j b_j s_j
    without the sample's own vote, where it is one of the validation samples    - a_i b_i ‖s_i‖²
    the gradient of a weighted selection                                        Σ_i a_i w_i s_i

Elsewhere the sample's part of the loss has a gradient g_i of its own, in the place of a_i s_i:

    influence                ⟨g_i, g⟩
    without the sample's own vote                                               - b_i ⟨g_i, s_i⟩
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tasks.select.sample_gradients import Direction, SampleGradients

if TYPE_CHECKING:
    from torch import Tensor


def products(scores: SampleGradients, direction: Direction) -> "Tensor":
    """⟨s_i, direction⟩ [B], in float64."""
    import torch

    parts = [(own.flatten(1) @ direction[name].to(own.dtype).flatten()).double() for name, own in scores.items()]
    return torch.stack(parts).sum(0)


def paired_products(scores: SampleGradients, others: SampleGradients) -> "Tensor":
    """⟨s_i, others_i⟩ [B], in float64."""
    import torch

    parts = [(own.double() * others[name].double()).flatten(1).sum(1) for name, own in scores.items()]
    return torch.stack(parts).sum(0)


def squared_norms(scores: SampleGradients) -> "Tensor":
    """‖s_i‖² [B], in float64."""
    import torch

    parts = [torch.linalg.vector_norm(own.flatten(1), dim=1).double().square() for own in scores.values()]
    return torch.stack(parts).sum(0)


def weighted_sum(scores: SampleGradients, weights: "Tensor") -> dict[str, "Tensor"]:
    """Σ_i weights_i s_i, of the factors' shapes; weights [B]."""
    return {name: (weights.to(own) @ own.flatten(1)).view(own.shape[1:]) for name, own in scores.items()}


def sum_directions(parts: Sequence[Direction]) -> Direction:
    """The sum of directions, whose factors are those of the first; of none, nothing."""
    names = parts[0] if parts else ()
    return {name: sum(part[name] for part in parts if name in part) for name in names}  # type: ignore[misc]


def safe_inverse(norms: "Tensor") -> "Tensor":
    """1 / norms, 0 for those that are 0; [B] in float64."""
    return (norms > 0) / norms.clamp(min=1e-300)


def unit_rows(scores: SampleGradients) -> SampleGradients:
    """s_i / ‖s_i‖; 0 stays 0."""
    by = safe_inverse(squared_norms(scores).sqrt())
    return {name: own * by.to(own.dtype).view(-1, 1, 1) for name, own in scores.items()}


def direction_cosine(one: Direction, other: Direction) -> float:
    """The cosine of the angle between two directions; 0 where one of them is 0."""
    product = sum(float((own.double() * other[name].double()).sum()) for name, own in one.items())
    return product / max(direction_norm(one) * direction_norm(other), 1e-300)


def direction_norm(direction: Direction) -> float:
    """‖direction‖"""
    return math.sqrt(sum(float(own.double().square().sum()) for own in direction.values()))
