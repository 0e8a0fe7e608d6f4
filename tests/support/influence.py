"""Influence of a policy's samples, and what it is made of by plain autograd."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tasks.influence.sample_gradients import lora_factors
from tasks.influence.tracin import Influences, Measure, influences
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.micro_batches import Layout
from tasks.model.scoring.scorer import Scorer
from tasks.objective.token_weights import TokenWeights
from tests.support.plain_scores import sample_logprobs
from tests.support.validation import advantage_validation

BY_TOKEN = TokenWeights("dapo", longest=64)


def scorer_of(policy: Policy, layout: Layout = "packed", tokens: int = 2048, temperature: float = 0.7) -> Scorer:
    return Scorer(policy.model, policy.tokenizer.pad_token_id, temperature, layout, tokens)


def measured(scorer: Scorer, samples: list[Sample], others: list[Sample] | None, **measure: Any) -> Influences:
    """By token; without other samples, against the samples themselves."""
    validation = advantage_validation(others or samples, BY_TOKEN, same_batch=others is None)
    return influences(scorer, samples, BY_TOKEN, validation, Measure(**measure))


def adapter(policy: Policy) -> list[torch.Tensor]:
    return [module.weight for module in lora_factors(policy.model).values()]


def flat(gradients: Iterable[torch.Tensor]) -> torch.Tensor:
    return torch.cat([gradient.flatten() for gradient in gradients])


def loss_of(policy: Policy, samples: list[Sample], denominator: int, temperature: float = 0.7) -> torch.Tensor:
    """-Σ c A Σ log p / M."""
    sums = sample_logprobs(policy.model, samples, temperature).sum(1)
    return -(sums @ sums.new_tensor([s.count * s.advantage for s in samples])) / denominator


def gradient_of(policy: Policy, loss: torch.Tensor) -> torch.Tensor:
    """Over the adapter, [P]."""
    return flat(torch.autograd.grad(loss, adapter(policy)))


def score_rows(policy: Policy, samples: list[Sample]) -> torch.Tensor:
    """∇ Σ log p of each sample alone, [n, P]."""
    return torch.stack([gradient_of(policy, sample_logprobs(policy.model, [s], 0.7).sum()) for s in samples])


@contextmanager
def stepped(policy: Policy, gradient: torch.Tensor, rate: float) -> Iterator[None]:
    """The policy after one gradient step, which is taken back at the end; without autograd."""
    weights = adapter(policy)
    before = [weight.detach().clone() for weight in weights]
    with torch.no_grad():
        for weight, part in zip(weights, gradient.split([weight.numel() for weight in weights]), strict=True):
            weight -= rate * part.view_as(weight)
        yield
        for weight, old in zip(weights, before, strict=True):
            weight.copy_(old)
