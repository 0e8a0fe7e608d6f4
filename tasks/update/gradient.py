"""The gradient of one step's loss, micro-batch by micro-batch.

The result does not depend on the micro-batches: the denominator is that of the step, and metrics are sums, so that
several processes can each compute a part of the micro-batches and add up (tasks/model/distributed/collectives.py).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

import torch
from torch import Tensor

from tasks.model.distributed.collectives import world_size
from tasks.model.sample import Sample
from tasks.model.scoring.backward import add_gradient
from tasks.model.scoring.device_copy import to_device
from tasks.model.scoring.micro_batches import MicroBatch
from tasks.model.scoring.scorer import Scorer
from tasks.objective.losses import TokenLosses, token_losses
from tasks.objective.recorded_logprobs import Logprobs, pad_behaviour, pad_logprobs, pad_rows
from tasks.objective.surrogates import Objective
from tasks.objective.token_weights import TokenWeights
from tasks.params.sections import Ppo, Update
from tasks.ppo.losses import PaddedTargets, pad_targets, value_losses
from tasks.update.step_plan import UpdateGroup


@dataclass
class TokenSums:
    """Totals over the tokens of some micro-batches."""

    tokens: float = 0
    loss: float = 0.0  # this and its parts are divided by the step's denominator
    policy_loss: float = 0.0
    kl_loss: float = 0.0
    entropy_loss: float = 0.0
    ratio: float = 0.0
    low: float = 0.0  # tokens that the clip acted on from below
    high: float = 0.0  # from above
    kl: float = 0.0
    entropy: float = 0.0
    ratio_max: float = 0.0  # the largest one, not a total
    value_loss: float = 0.0  # as it enters the loss; this and the others: 0 without a value head
    returns: float = 0.0
    squared_returns: float = 0.0
    errors: float = 0.0  # return - value
    squared_errors: float = 0.0

    def add(self, other: "TokenSums") -> None:
        for name, added in vars(other).items():
            total = getattr(self, name)
            setattr(self, name, max(total, added) if name == "ratio_max" else total + added)


def objective_of(params: Update) -> Objective:
    """The params that make up a token's loss."""
    return Objective(**{field.name: getattr(params, field.name) for field in fields(Objective)})


def accumulate_gradient(
    scorer: Scorer,
    step: Sequence[UpdateGroup],
    behaviour: Logprobs,
    reference: Logprobs | None,
    params: Update,
    ppo: Ppo | None = None,
) -> TokenSums:
    """Add the gradient of one step's loss to the weights.

    A sample that `behaviour` lacks has a ratio of 1. With `ppo` the samples have targets and the scorer has a value
    head, whose loss is added. Raises FloatingPointError that names the samples whose loss is not finite.
    """
    loss_of = partial(_loss_of, scorer, behaviour, reference, params, ppo, sum(g.denominator for g in step))
    batches = scorer.batches([s for g in step for s in g.samples], world_size())
    parts = add_gradient(scorer, batches, loss_of, params.deterministic)
    # Only now: all processes have come through, so that all raise together and none waits for another.
    if broken := [s for _, samples in parts for s in samples]:
        raise FloatingPointError(f"the loss of {sample_names(broken)} is not finite")
    sums = TokenSums()
    for part, _ in parts:
        sums.add(part)
    return sums


def _loss_of(
    scorer: Scorer,
    behaviour: Logprobs,
    reference: Logprobs | None,
    params: Update,
    ppo: Ppo | None,
    denominator: int,
    batch: MicroBatch,
) -> tuple[Tensor, Callable[[], Callable[[], tuple[TokenSums, list[Sample]]]]]:
    """A micro-batch's part of the step's loss, and a function for its metrics, which returns one that reads them: sums,
    and samples whose loss is not finite.

    In two steps, as reading a number of a card waits for all that the card has to do: the sums are queued after the
    backward pass, and read after the last micro-batch.
    """
    samples, scored = batch.samples, scorer.score(batch)
    logprobs, mask = scored.logprobs, scored.mask
    targets = pad_targets(samples, logprobs) if ppo else None
    tokens = token_losses(
        logprobs,
        pad_behaviour(behaviour, samples, logprobs),
        None if reference is None else pad_logprobs(reference, samples, logprobs),
        scored.entropies if params.entropy > 0 else None,
        pad_advantages(samples, logprobs, targets),
        mask,
        objective_of(params),
    )
    critic = None
    if ppo and targets and scored.values is not None:
        critic = value_losses(scored.values, targets.returns, mask)
        tokens = replace(tokens, loss=tokens.loss + ppo.value_weight * critic)
    averaging = TokenWeights(params.loss, longest=1)  # for the weights alone, which `longest` has no part in
    numbers = [[s.count, averaging.weight(len(s.completion))] for s in samples]
    counts, averaged = to_device([torch.tensor(numbers, dtype=logprobs.dtype)], logprobs.device)[0].T[:, :, None]
    counts = counts * mask
    weights = counts * averaged
    loss = (tokens.loss * weights).sum() / denominator

    def totals_of_batch() -> Callable[[], tuple[TokenSums, list[Sample]]]:
        totals = [_totals(tokens, loss, scored.entropies, counts, weights / denominator)]
        if ppo and critic is not None and targets and scored.values is not None:
            errors, value_weights = targets.returns - scored.values.detach(), ppo.value_weight * weights / denominator
            totals.append(_value_totals(critic, errors, targets.returns, counts, value_weights))
        return partial(_read, totals, tokens.loss.detach().sum(1).isfinite(), samples)

    return loss, totals_of_batch


def _read(totals: Sequence[Tensor], finite: Tensor, samples: Sequence[Sample]) -> tuple[TokenSums, list[Sample]]:
    part = TokenSums(*(number for numbers in totals for number in numbers.tolist()))
    if math.isfinite(part.loss):
        return part, []
    return part, [s for s, is_finite in zip(samples, finite.tolist(), strict=True) if not is_finite]


def pad_advantages(samples: Sequence[Sample], like: Tensor, targets: PaddedTargets | None = None) -> Tensor:
    """The advantages [R, 1], or of each token [R, C] with PPO's targets or where the sampler is corrected for."""
    column = torch.tensor([s.advantage for s in samples], dtype=like.dtype)[:, None]
    advantages = targets.advantages if targets else to_device([column], like.device)[0]
    if not any(s.token_weights for s in samples):
        return advantages
    return advantages * pad_rows([s.token_weights or (1.0,) * len(s.completion) for s in samples], like)


def _totals(tokens: TokenLosses, loss: Tensor, entropies: Tensor, counts: Tensor, weights: Tensor) -> Tensor:
    """The numbers of `TokenSums`, in its order, without those of values.

    `counts` [R, C]: how many tokens of the round each stands for, `weights` [R, C]: how much each weighs in the loss;
    both 0 where padded.
    """
    totals = (
        counts.sum(),
        loss,
        (tokens.policy * weights).sum(),
        (tokens.penalty * weights).sum(),
        (tokens.bonus * weights).sum(),
        (tokens.ratio * counts).sum(),
        ((tokens.clipped & (tokens.ratio < 1)) * counts).sum(),
        ((tokens.clipped & (tokens.ratio > 1)) * counts).sum(),
        (tokens.kl * counts).sum(),
        (entropies * counts).sum(),
        tokens.ratio.max(),
    )
    return torch.stack(totals).detach()


def _value_totals(losses: Tensor, errors: Tensor, returns: Tensor, counts: Tensor, weights: Tensor) -> Tensor:
    """The numbers of values, in float64."""
    counts, errors, returns = counts.double(), errors.double(), returns.double()
    totals = (
        (losses * weights).double().sum(),
        *((numbers * counts).sum() for numbers in (returns, returns.square(), errors, errors.square())),
    )
    return torch.stack(totals).detach()


def sample_names(samples: Sequence[Sample], most: int = 5) -> str:
    """Samples by problem and place in its group, the first few."""
    names = [f"{s.problem_id} completion {s.member}" for s in samples]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
