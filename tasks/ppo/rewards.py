"""Rewards of tokens: the KL to the reference is paid token by token, the completion's reward comes with the last.

With d = log p - log p_reference of the token drawn, both before the update:

    r_t = -beta · KL_t, + reward at the last token

    kl_in_reward   KL_t
    kl             d
    abs            |d|
    mse            d² / 2
    full           Σ_v p(v) (log p(v) - log p_reference(v)) over the vocabulary: tasks/ppo/vocabulary_kl.py

Ziegler et al. 2019, "Fine-Tuning Language Models from Human Preferences" (arXiv 1909.08593), §2.2; the kinds are those
of TRL 0.11's PPOTrainer, and kl, mse are k1, k2 of tasks/objective/kl.py.
"""

from typing import TYPE_CHECKING

from tasks.objective.kl import kl_estimate
from tasks.params.fields import KlInReward

if TYPE_CHECKING:
    from torch import Tensor


def token_kl(logprobs: "Tensor", reference: "Tensor", kind: KlInReward) -> "Tensor":
    """KL_t of each token, of the shape of `logprobs`. Raises ValueError for `full`, which needs whole distributions."""
    if kind == "full":
        raise ValueError("full is no function of the log-probabilities of the tokens drawn")
    if kind == "abs":
        return (logprobs - reference).abs()
    return kl_estimate(logprobs, reference, "k1" if kind == "kl" else "k2")


def token_rewards(rewards: "Tensor", kl: "Tensor", mask: "Tensor", beta: float) -> "Tensor":
    """r_t of each token, [R, C], 0 where padded; rewards [R], kl and mask [R, C], each row has a token."""
    import torch

    found = -beta * kl * mask
    last = mask.sum(1).long() - 1
    return found.index_put((torch.arange(len(found), device=found.device), last), rewards, accumulate=True)
