"""The GRPO loss: clipped policy gradient and k3 KL for each completion token, and how tokens become one number.

Left out on purpose: entropy bonus, sequence-level ratios, per-sequence means. Every token weighs the same, as in
DAPO (Yu et al. 2025, eq. 8).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class TokenLosses:
    """What each completion token gives, all [B, T] and 0 where the mask is False; only `loss` has a gradient."""

    loss: "Tensor"
    ratio: "Tensor"  # p(token) now / when it was sampled
    clipped: "Tensor"  # bool: the clip has taken the token's gradient away
    kl: "Tensor"  # k3 estimate of KL(policy ‖ reference)


def token_losses(
    logprobs: "Tensor",
    behaviour: "Tensor",
    reference: "Tensor | None",
    advantages: "Tensor",
    mask: "Tensor",
    clip_low: float,
    clip_high: float,
    beta: float,
) -> TokenLosses:
    """-min(r·A, clip(r, 1 - clip_low, 1 + clip_high)·A) + beta·k3 for each token.

    r = exp(logprobs - behaviour), k3 = exp(reference - logprobs) - (reference - logprobs) - 1 (Schulman 2020).
    logprobs, behaviour, reference, mask: [B, T]; advantages: [B]. Without a reference the KL term is 0.
    (Shao et al. 2024, DeepSeekMath, eq. 3 and 4.)
    """
    import torch

    gain = advantages[:, None]
    ratio = (logprobs - behaviour).exp()
    loss = -torch.minimum(ratio * gain, ratio.clamp(1 - clip_low, 1 + clip_high) * gain)
    clipped = ((ratio < 1 - clip_low) & (gain < 0)) | ((ratio > 1 + clip_high) & (gain > 0))
    kl = torch.zeros_like(logprobs)
    if reference is not None:
        difference = reference - logprobs
        kl = difference.exp() - difference - 1
        loss = loss + beta * kl
    return TokenLosses(loss * mask, ratio.detach() * mask, clipped & mask, kl.detach() * mask)


def reduce(loss: "Tensor", mask: "Tensor", denominator: int) -> "Tensor":
    """Σ loss over the mask / denominator.

    The denominator counts the tokens of the whole optimiser step. It is fixed before the micro-batches are made,
    so that their sizes never change the gradient.
    """
    return (loss * mask).sum() / denominator
