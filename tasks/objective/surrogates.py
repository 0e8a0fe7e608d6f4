"""Surrogates of the policy gradient, one function for each kind.

r is the importance ratio, [R, C] for tokens or [R, 1] for whole completions; A the advantage, [R, 1], or [R, C] of
each token. Each returns the loss [R, C] or [R, 1] and where the clip is active, bool of r's shape. At r = 1 the
gradient of each is -A ∇ log p.
"""

import torch
from torch import Tensor

from tasks.params.fields import Importance

TAU_POSITIVE, TAU_NEGATIVE = 1.0, 1.05
"""How sharply SAPO's gate closes, for advantages above 0 and below (Gao et al. 2025)."""


def importance_ratio(logprobs: Tensor, behaviour: Tensor, mask: Tensor, level: Importance) -> Tensor:
    """p now / p when sampled: [R, C] of each token, or [R, 1] the geometric mean over a completion's tokens.

    The mean is GSPO's ratio (Zheng et al. 2025): a completion's length does not widen it.
    """
    difference = logprobs - behaviour
    if level == "token":
        return difference.exp()
    return ((difference * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)).exp()


def clipped(ratio: Tensor, advantages: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """-min(r·A, clip(r, 1 - low, 1 + high)·A) (Schulman et al. 2017, PPO)."""
    loss = -torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)
    was_clipped = ((ratio < 1 - low) & (advantages < 0)) | ((ratio > 1 + high) & (advantages > 0))
    return loss, was_clipped


def capped(logprobs: Tensor, ratio: Tensor, advantages: Tensor, high: float) -> tuple[Tensor, Tensor]:
    """-sg[min(r, 1 + high)]·A·log p: the clip bounds a token's weight and never takes its gradient away (CISPO).

    (MiniMax-M1, 2025.) TRL's `epsilon_high` is this bound itself, 1 + high: left at its default,
    0.2, every gradient there is scaled by 0.2.
    """
    return -ratio.detach().clamp(max=1 + high) * advantages * logprobs, ratio > 1 + high


def plain(logprobs: Tensor, advantages: Tensor) -> tuple[Tensor, Tensor]:
    """-A·log p, without any ratio: a token of an older policy counts as one of the present policy.

    (REINFORCE, Williams 1992.)
    """
    return -advantages * logprobs, torch.zeros_like(logprobs, dtype=torch.bool)


def gated(ratio: Tensor, advantages: Tensor) -> tuple[Tensor, Tensor]:
    """-4 σ(τ (r - 1)) / τ · A: the gradient fades as r leaves 1, faster for failures (SAPO, Gao et al. 2025)."""
    tau = torch.where(advantages > 0, TAU_POSITIVE, TAU_NEGATIVE)
    return -(tau * (ratio - 1)).sigmoid() * 4 / tau * advantages, torch.zeros_like(ratio, dtype=torch.bool)
