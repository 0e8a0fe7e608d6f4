"""The losses of the policy gradient by name: the surrogate of each, and how its tokens are averaged.

A surrogate is called with log-probabilities [R, C], importance ratios r, [R, C] of tokens or [R, 1] of whole
completions, advantages A, [R, 1], or [R, C] of each token, and the objective's params. It returns the loss [R, C] or
[R, 1] and where its clip is active, bool of r's shape. At r = 1 the gradient of each one here is -A ∇ log p.

A user's is one more row: `update.loss: module:function` is averaged as dapo is; `module:NAME` of a `PolicyLoss` as
that says.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from tasks.errors import GraftError
from tasks.params.fields import Importance, KlEstimate, Loss
from tasks.sources.user_code import call, load

TAU_POSITIVE, TAU_NEGATIVE = 1.0, 1.05
"""How sharply SAPO's gate closes, for advantages above 0 and below (Gao et al. 2025)."""


@dataclass(frozen=True)
class Objective:
    """The params of a token's loss."""

    loss: Loss
    importance: Importance
    clip_low: float
    clip_high: float
    beta: float
    kl: KlEstimate
    kl_correction: bool
    entropy: float


Surrogate = Callable[[Tensor, Tensor, Tensor, Objective], tuple[Tensor, Tensor]]
"""(logprobs, ratio, advantages, objective) → the loss of each token, and where its clip is active."""

Mean = Literal["tokens", "completions", "constant"]
"""What a step's loss is a mean over: tasks/objective/token_weights.py."""


class PolicyLoss(NamedTuple):
    """A loss of the policy gradient."""

    surrogate: Surrogate
    mean: Mean = "tokens"


def importance_ratio(logprobs: Tensor, behaviour: Tensor, mask: Tensor, level: Importance) -> Tensor:
    """p now / p when sampled: [R, C] of each token, or [R, 1] the geometric mean over a completion's tokens.

    The mean is GSPO's ratio (Zheng et al. 2025): a completion's length does not widen it.
    """
    difference = logprobs - behaviour
    if level == "token":
        return difference.exp()
    return ((difference * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)).exp()


def clipped(
    logprobs: Tensor, ratio: Tensor, advantages: Tensor, objective: Objective  # noqa: ARG001
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """-min(r·A, clip(r, 1 - low, 1 + high)·A) (Schulman et al. 2017, PPO)."""
    low, high = objective.clip_low, objective.clip_high
    loss = -torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)
    was_clipped = ((ratio < 1 - low) & (advantages < 0)) | ((ratio > 1 + high) & (advantages > 0))
    return loss, was_clipped


def capped(logprobs: Tensor, ratio: Tensor, advantages: Tensor, objective: Objective) -> tuple[Tensor, Tensor]:
    """-sg[min(r, 1 + high)]·A·log p: the clip bounds a token's weight and never takes its gradient away (CISPO).

    (MiniMax-M1, 2025.) TRL's `epsilon_high` is this bound itself, 1 + high: left at its default,
    0.2, every gradient there is scaled by 0.2.
    """
    high = objective.clip_high
    return -ratio.detach().clamp(max=1 + high) * advantages * logprobs, ratio > 1 + high


def plain(
    logprobs: Tensor, ratio: Tensor, advantages: Tensor, objective: Objective  # noqa: ARG001
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """-A·log p, without any ratio: a token of an older policy counts as one of the present policy.

    (REINFORCE, Williams 1992.)
    """
    return -advantages * logprobs, torch.zeros_like(logprobs, dtype=torch.bool)


def gated(
    logprobs: Tensor, ratio: Tensor, advantages: Tensor, objective: Objective  # noqa: ARG001
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """-4 σ(τ (r - 1)) / τ · A: the gradient fades as r leaves 1, faster for failures (SAPO, Gao et al. 2025)."""
    tau = torch.where(advantages > 0, TAU_POSITIVE, TAU_NEGATIVE)
    return -(tau * (ratio - 1)).sigmoid() * 4 / tau * advantages, torch.zeros_like(ratio, dtype=torch.bool)


LOSSES: dict[str, PolicyLoss] = {
    "dapo": PolicyLoss(clipped),
    "grpo": PolicyLoss(clipped, "completions"),
    "dr_grpo": PolicyLoss(clipped, "constant"),
    "cispo": PolicyLoss(capped),
    "sapo": PolicyLoss(gated, "completions"),
    "reinforce": PolicyLoss(plain, "completions"),
}
"""Value of `update.loss` → loss: tasks/objective/losses.py has their formulas and papers."""


def policy_loss(name: Loss) -> PolicyLoss:
    """The loss that `update.loss` names. Raises GraftError where a user's is neither a function nor a PolicyLoss."""
    if name in LOSSES:
        return LOSSES[name]
    loaded = load("update.loss", name)
    loss = loaded if isinstance(loaded, PolicyLoss) else PolicyLoss(loaded)
    if not callable(loss.surrogate) or loss.mean not in ("tokens", "completions", "constant"):
        raise GraftError(
            f"update.loss: {name} is {loaded!r:.80}; define a function of logprobs, ratio, advantages and objective, "
            "or PolicyLoss(function, mean) with mean tokens, completions or constant"
        )

    def surrogate(logprobs: Tensor, ratio: Tensor, advantages: Tensor, objective: Objective) -> tuple[Tensor, Tensor]:
        returned = call("update.loss", name, loss.surrogate, logprobs, ratio, advantages, objective)
        if not _fits(returned, logprobs):
            raise GraftError(
                f"update.loss: {name} returned {_kind(returned)} for {_kind(logprobs)}; return the loss of each "
                "token, and a bool tensor of where its clip is active"
            )
        return returned  # type: ignore[no-any-return]

    return PolicyLoss(surrogate, loss.mean)


def _fits(returned: object, logprobs: Tensor) -> bool:
    rows, columns = logprobs.shape
    return (
        isinstance(returned, tuple)
        and len(returned) == 2
        and all(isinstance(part, Tensor) and part.shape in ((rows, columns), (rows, 1)) for part in returned)
        and returned[0].is_floating_point()
        and returned[1].dtype == torch.bool
    )


def _kind(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_kind, value))})"
    return f"{value.dtype} {[*value.shape]}" if isinstance(value, Tensor) else type(value).__name__
