"""Samples with the targets of PPO, and value heads that are not 0."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.micro_batches import RowLayout
from tasks.model.scoring.scorer import Scorer
from tasks.objective.recorded_logprobs import score_samples
from tasks.params.sections import Ppo
from tasks.ppo.critic import token_targets
from tasks.ppo.value_head import zero_head


def random_head(policy: Policy, seed: int = 0, size: float = 0.2) -> Any:
    head, generator = zero_head(policy), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in head.parameters():
            weight.copy_(size * torch.randn(weight.shape, generator=generator))
    return head


def critic_scorer(
    policy: Policy, head: Any, layout: RowLayout = "packed", tokens: int = 2048, **changes: Any
) -> Scorer:
    """At a temperature of 0.7."""
    return Scorer(policy.model, policy.tokenizer.pad_token_id, 0.7, layout, tokens, value_head=head, **changes)


def with_token_targets(scorer: Scorer, samples: Sequence[Sample], ppo: Ppo) -> list[Sample]:
    """The samples as the policy's own completions, with their advantages as rewards and no KL."""
    values, logprobs = score_samples(scorer, samples, "values"), score_samples(scorer, samples)
    targets = token_targets(samples, [s.advantage for s in samples], values, None, 0.0, ppo)
    return [
        replace(s, advantage=own.advantages[-1], targets=own, behaviour=tuple(logprobs[key].tolist()))
        for s in samples
        for key in [(s.problem_id, s.member)]
        for own in [targets[key]]
    ]
