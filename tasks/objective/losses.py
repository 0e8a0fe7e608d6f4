"""The loss of an update: token losses and their reduction to one number.

    token loss = surrogate(r, A) + beta · KL estimate - entropy · H

r is the importance ratio, A the advantage, H the entropy of the distribution that the token was drawn from:

    loss         surrogate                                     mean over                     from
    dapo         -min(r A, clip(r, 1 - low, 1 + high) A)       tokens of the step            Yu et al. 2025, eq. 8
    grpo         the same                                      each completion, then them    Shao et al. 2024, eq. 3
    dr_grpo      the same                                      a constant length             Liu et al. 2025
    cispo        -sg[min(r, 1 + high)] A log p                 tokens of the step            MiniMax-M1 2025
    sapo         -4 σ(τ (r - 1)) / τ · A                       each completion, then them    Gao et al. 2025
    reinforce    -A log p                                      each completion, then them    Williams 1992

    importance   r
    token        exp(log p - log p when sampled)                                             Schulman et al. 2017
    sequence     exp(mean of that over the completion)                                       GSPO, Zheng et al. 2025

    kl           estimate of KL(policy ‖ reference) from the token, d = log p_reference - log p    Schulman 2020
    k1           -d              unbiased, of either sign. Its own gradient is 0 on average: it pulls to the reference
                                 only with the correction
    k2           d² / 2          biased, but its gradient is that of the KL where the policy drew the token itself
    k3           e^d - d - 1     unbiased and never negative; the one of DeepSeekMath, eq. 4
    kl_correction                times r, gradient included: then value and gradient are those of the KL for tokens
                                 that an older policy drew (DeepSeek-V3.2, 2025; TRL's `use_bias_correction_kl`)

    entropy      H at the sampling temperature, averaged as the loss is

GSPO as published is `loss: grpo` with `importance: sequence`, Dr. GRPO `loss: dr_grpo` with `advantages: none`. The
manual loss of rookworld-trl is flows/presets/manual.yaml.
The surrogates are in tasks/objective/surrogates.py, where a user's is one more row; the means in
tasks/objective/token_weights.py: influence needs them too. Loss and gradients are those of TRL 1.16
(tests/unit/update/test_trl_oracle.py), but for the entropy of grpo, sapo and dr_grpo, which TRL averages over tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tasks.model.sample import Sample
from tasks.model.scoring.token_scores import TokenScores
from tasks.objective.surrogates import Objective, importance_ratio, policy_loss
from tasks.params.fields import KlEstimate


@dataclass(frozen=True)
class TokenLosses:
    """The loss of each token and its parts, all [R, C] and 0 where the mask is False; only `loss` has a gradient."""

    loss: Tensor  # policy + penalty + bonus
    policy: Tensor  # the surrogate
    penalty: Tensor  # beta · KL estimate, corrected where it is
    bonus: Tensor  # -entropy · H
    ratio: Tensor  # p now / when it was sampled, of the token or of its completion
    clipped: Tensor  # bool: the clip set the token's gradient to 0 (cispo: bounded it)
    kl: Tensor  # estimate of KL(policy ‖ reference), before any correction


def token_losses(
    logprobs: Tensor,
    behaviour: Tensor,
    reference: Tensor | None,
    entropies: Tensor | None,
    advantages: Tensor,
    mask: Tensor,
    objective: Objective,
) -> TokenLosses:
    """The loss of each token. logprobs, behaviour, reference, entropies, mask: [R, C]; advantages: [R], or [R, C].

    Without a reference the KL term is 0, without entropies the bonus is.
    """
    ratio = importance_ratio(logprobs, behaviour, mask, objective.importance)
    advantages = advantages[:, None] if advantages.dim() == 1 else advantages
    policy, was_clipped = policy_loss(objective.loss).surrogate(logprobs, ratio, advantages, objective)
    loss, kl = policy, torch.zeros_like(logprobs)
    penalty = bonus = kl
    if reference is not None:
        kl = kl_estimate(logprobs, reference, objective.kl)
        if objective.beta:
            penalty = objective.beta * (kl * ratio if objective.kl_correction else kl)
            loss = loss + penalty
    if entropies is not None:
        bonus = -objective.entropy * entropies
        loss = loss + bonus
    return TokenLosses(
        loss=loss * mask,
        policy=policy.detach() * mask,
        penalty=penalty.detach() * mask,
        bonus=bonus.detach() * mask,
        ratio=ratio.detach() * mask,
        clipped=was_clipped & mask,
        kl=kl.detach() * mask,
    )


def kl_estimate(logprobs: Tensor, reference: Tensor, kind: KlEstimate) -> Tensor:
    """The estimate of KL(policy ‖ reference) for each token, of the shape of `logprobs`; differentiable."""
    difference = reference - logprobs
    if kind == "k1":
        return -difference
    if kind == "k2":
        return difference.square() / 2
    return difference.exp() - difference - 1


def first_step_losses(objective: Objective, samples: Sequence[Sample], scored: TokenScores) -> Tensor:
    """The surrogate of each token at the weights that the samples were drawn with, where every ratio is 1; [R, C]."""
    logprobs = scored.logprobs
    advantages = logprobs.new_tensor([s.advantage for s in samples])
    return token_losses(logprobs, logprobs.detach(), None, None, advantages, scored.mask, objective).loss
