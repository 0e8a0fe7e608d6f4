"""Arithmetic on the gradients of samples, [B, P] in parts.

Products and squared norms are sums over the parts, the LoRA factors.
"""

import math

import torch
from torch import Tensor

from tasks.select.sample_gradients import Direction, SampleGradients


def products(gradients: SampleGradients, direction: Direction) -> Tensor:
    """⟨g_i, direction⟩ [B], in float64."""
    parts = [(own.flatten(1) @ direction[name].to(own.dtype).flatten()).double() for name, own in gradients.items()]
    return torch.stack(parts).sum(0)


def squared_norms(gradients: SampleGradients) -> Tensor:
    """‖g_i‖² [B], in float64."""
    parts = [torch.linalg.vector_norm(own.flatten(1), dim=1).double().square() for own in gradients.values()]
    return torch.stack(parts).sum(0)


def weighted_sum(gradients: SampleGradients, weights: Tensor) -> dict[str, Tensor]:
    """Σ_i weights_i g_i, of the factors' shapes; weights [B]."""
    return {name: (weights.to(own) @ own.flatten(1)).view(own.shape[1:]) for name, own in gradients.items()}


def row_products(one: Tensor, other: Tensor) -> list[float]:
    """⟨one_i, other_i⟩ of each row, [B, P] and [B, P] → [B] in float64."""
    found: list[float] = (one.double() * other.double()).sum(1).tolist()
    return found


def safe_inverse(norms: Tensor) -> Tensor:
    """1 / norms, 0 for those that are 0; [B] in float64."""
    return (norms > 0) / norms.clamp(min=1e-300)


def direction_cosine(one: Direction, other: Direction) -> float:
    """The cosine of the angle between two directions; 0 where one of them is 0."""
    product = sum(float((own.double() * other[name].double()).sum()) for name, own in one.items())
    return product / max(direction_norm(one) * direction_norm(other), 1e-300)


def direction_norm(direction: Direction) -> float:
    """‖direction‖"""
    return math.sqrt(sum(float(own.double().square().sum()) for own in direction.values()))
