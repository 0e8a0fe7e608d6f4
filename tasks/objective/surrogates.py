"""What a token adds to the loss for its advantage, and where the clip acts: one function for each kind.

r is the importance ratio, [R, C] for tokens or [R, 1] for whole completions; A the advantage, [R, 1]. Each returns
the loss [R, C] or [R, 1] and where the clip acts, bool of r's shape. At r = 1 the gradient of each is -A ∇ log p.
"""

from typing import TYPE_CHECKING

from tasks.params.fields import Importance

if TYPE_CHECKING:
    from torch import Tensor

TAU_POSITIVE, TAU_NEGATIVE = 1.0, 1.05
"""How sharply SAPO's gate closes, for advantages above 0 and below (Gao et al. 2025)."""


def importance_ratio(logprobs: "Tensor", behaviour: "Tensor", mask: "Tensor", level: Importance) -> "Tensor":
    """p now / p when sampled: [R, C] of each token, or [R, 1] the geometric mean over a completion's tokens.

    The mean is GSPO's ratio (Zheng et al. 2025): a completion's length does not widen it.
    """
    difference = logprobs - behaviour
    if level == "token":
        return difference.exp()
    return ((difference * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)).exp()


def clipped(ratio: "Tensor", gain: "Tensor", low: float, high: float, delta: float | None) -> "tuple[Tensor, Tensor]":
    """-min(r·A, clip(r, 1 - low, 1 + high)·A); with `delta`, min(r, delta) for the first r.

    Without it nothing bounds the push of a failure that has become likelier (Schulman et al. 2017, PPO;
    delta: INTELLECT-2, Prime Intellect 2025).
    """
    import torch

    bounded = ratio if delta is None else ratio.clamp(max=delta)
    loss = -torch.minimum(bounded * gain, ratio.clamp(1 - low, 1 + high) * gain)
    acts = ((ratio < 1 - low) & (gain < 0)) | ((ratio > 1 + high) & (gain > 0))
    return loss, acts if delta is None else acts | ((ratio > delta) & (gain < 0))


def capped(logprobs: "Tensor", ratio: "Tensor", gain: "Tensor", high: float) -> "tuple[Tensor, Tensor]":
    """-sg[min(r, 1 + high)]·A·log p: the clip bounds a token's weight and never takes its gradient away (CISPO).

    (MiniMax-M1, 2025.) TRL's `epsilon_high` is this bound itself, 1 + high: left at its default,
    0.2, every gradient there is scaled by 0.2.
    """
    return -ratio.detach().clamp(max=1 + high) * gain * logprobs, ratio > 1 + high


def gated(ratio: "Tensor", gain: "Tensor") -> "tuple[Tensor, Tensor]":
    """-4 σ(τ (r - 1)) / τ · A: the gradient fades as r leaves 1, faster for failures (SAPO, Gao et al. 2025)."""
    import torch

    tau = torch.where(gain > 0, TAU_POSITIVE, TAU_NEGATIVE)
    return -(tau * (ratio - 1)).sigmoid() * 4 / tau * gain, torch.zeros_like(ratio, dtype=torch.bool)
