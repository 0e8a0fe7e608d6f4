"""Rewards of tokens, generalised advantage estimation, and whitening.

The KL to the reference is paid token by token, the completion's reward comes with the last. With
d = log p - log p_reference of the token drawn, both before the update, V_t the value of the prefix before token t, and
V = 0 after the last:

    r_t = -beta · d_t, + reward at the last token
    δ_t = r_t + γ V_{t+1} - V_t
    A_t = δ_t + γ λ A_{t+1}
    R_t = A_t + V_t                    what the value of the prefix is trained to be

Schulman et al. 2016, "High-Dimensional Continuous Control Using Generalized Advantage Estimation" (arXiv 1506.02438),
eq. 16. With λ = 1 and γ = 1, A_t is the sum of the rewards from t on minus V_t; with λ = 0 it is δ_t. The KL in the
reward, estimated by d: Ziegler et al. 2019, "Fine-Tuning Language Models from Human Preferences" (arXiv 1909.08593),
§2.2.
"""

import torch
from torch import Tensor

EPSILON = 1e-8
"""Added to the variance, as in TRL 0.11: a batch of equal advantages gives 0."""


def token_rewards(rewards: Tensor, kl: Tensor, mask: Tensor, beta: float) -> Tensor:
    """r_t of each token, [R, C], 0 where padded; rewards [R], kl and mask [R, C], each row has a token."""
    paid = -beta * kl * mask
    last = mask.sum(1).long() - 1
    return paid.index_put((torch.arange(len(paid), device=paid.device), last), rewards, accumulate=True)


def estimate_advantages(
    rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float
) -> tuple[Tensor, Tensor]:
    """A and R of each token, 0 where padded; all [R, C], rows padded on the right."""
    r, v = rewards * mask, values * mask
    advantages, after, value_after = torch.zeros_like(r), torch.zeros_like(r[:, 0]), torch.zeros_like(r[:, 0])
    # Rows are padded on the right, where r and v are 0: the sum that begins there is 0 at a row's last token.
    for t in reversed(range(r.shape[1])):
        after = r[:, t] + gamma * value_after - v[:, t] + gamma * lam * after
        advantages[:, t], value_after = after, v[:, t]
    return advantages, advantages + v


def whiten(values: Tensor, mask: Tensor) -> Tensor:
    """The values scaled to mean 0 and variance 1 over the tokens; [R, C], 0 where padded."""
    count = mask.sum()
    mean = (values * mask).sum() / count
    variance = ((values - mean).square() * mask).sum() / (count - 1).clamp(min=1)
    return (values - mean) * (variance + EPSILON).rsqrt() * mask
