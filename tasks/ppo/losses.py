"""PPO's losses: the clipped surrogate with an advantage of each token, and the squared error of the values.

    L = mean_t -min(ρ_t A_t, clip(ρ_t, 1 - clip, 1 + clip) A_t)
        + value_weight · mean_t (v_t - R_t)² / 2

v is the value now; A and R are those of tasks/ppo/gae.py. Schulman et al. 2017, "Proximal Policy Optimization
Algorithms" (arXiv 1707.06347), eq. 7 and 9, without the bound of the values that OpenAI's baselines and TRL have: in
the few steps of a round, from a head of 0, it takes half of the tokens' gradients away. The first part is the surrogate
of GRPO's `dapo`, which has one advantage for all tokens of a completion.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from tasks.model.sample import Sample
from tasks.model.scoring.token_scores import TokenScores
from tasks.objective.losses import token_losses
from tasks.objective.recorded_logprobs import pad_rows
from tasks.objective.surrogates import Objective
from tasks.params.params import Params
from tasks.params.sections import Ppo

OBJECTIVE: dict[str, Any] = {"loss": "dapo", "importance": "token", "kl_correction": False}
"""The params of `update` that PPO's surrogate fixes, besides the clips."""


@dataclass(frozen=True)
class PaddedTargets:
    """The targets of R samples, each [R, C], 0 where padded."""

    advantages: Tensor
    returns: Tensor


def with_ppo_objective(params: Params) -> Params:
    """The params with the section `update` as algorithm ppo reads it; unchanged for algorithm grpo."""
    if params.algorithm == "grpo":
        return params
    fixed = OBJECTIVE | {"clip_low": params.ppo.clip, "clip_high": params.ppo.clip}
    return params.model_copy(update={"update": params.update.model_copy(update=fixed)})


def value_losses(values: Tensor, returns: Tensor, mask: Tensor) -> Tensor:
    """The loss of each token before its weight, 0 where the mask is False; all [R, C]."""
    return 0.5 * (values - returns).square() * mask


def pad_targets(samples: Sequence[Sample], like: Tensor) -> PaddedTargets:
    """The samples' targets as rows [R, C] of the shape and type of `like`."""
    names = ("advantages", "returns")
    return PaddedTargets(*(pad_rows([getattr(s.targets, name) for s in samples], like) for name in names))


def first_step_losses(ppo: Ppo, samples: Sequence[Sample], scored: TokenScores) -> Tensor:
    """The loss of each token at the weights that the samples were drawn with, where every ratio is 1; [R, C].

    Values that a frozen value head gives: their loss has a gradient in what is below it alone.
    """
    logprobs, mask = scored.logprobs, scored.mask
    assert scored.values is not None
    targets = pad_targets(samples, logprobs)
    surrogate = token_losses(
        logprobs, logprobs.detach(), None, None, targets.advantages, mask, first_step_objective(ppo)
    )
    return surrogate.loss + ppo.value_weight * value_losses(scored.values, targets.returns, mask)


def first_step_objective(ppo: Ppo) -> Objective:
    """The surrogate alone: the KL is in the advantages, and the entropy bonus is no part of influence."""
    return Objective(**OBJECTIVE, clip_low=ppo.clip, clip_high=ppo.clip, beta=0.0, kl="k1", entropy=0.0)
