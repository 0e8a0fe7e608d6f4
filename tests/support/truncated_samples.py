"""Samples that a policy draws from its truncated distribution, and their log-probabilities written out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from tasks.model.decoding.token_draw import Truncation
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.sampling.sampler import Request, sample

TRUNCATION = Truncation(top_p=0.9, top_k=5)


def drawn(
    policy: Policy, samples: Sequence[Sample], temperature: float, truncation: Truncation = TRUNCATION
) -> list[Sample]:
    """The samples with completions of at most 12 tokens that the policy draws for their prompts."""
    requests = [Request(list(s.prompt), seed, temperature=s.temperature) for seed, s in enumerate(samples)]
    found = sample(policy, requests, temperature, 12, "test", truncation)
    return [
        replace(s, completion=tuple(c.tokens), behaviour=tuple(c.logprobs), kept=tuple(map(tuple, c.kept)))
        for s, c in zip(samples, found, strict=True)
    ]


def kept_scores(model: Any, sample: Sample, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities and entropies [T] over the kept sets, by masks on all logits; the sample alone in its row.

    A sample's own temperature takes the place of `temperature`.
    """
    ids = torch.tensor([[*sample.prompt, *sample.completion]])
    logits = model(input_ids=ids).logits[0, len(sample.prompt) - 1 : -1] / (sample.temperature or temperature)
    everything = range(logits.shape[1])
    outside = torch.tensor([[t not in (own or everything) for t in everything] for own in kept_of(sample)])
    given = torch.distributions.Categorical(logits=logits.masked_fill(outside, -1e4))
    return given.log_prob(ids[0, len(sample.prompt) :]), given.entropy()


def kept_of(sample: Sample) -> Sequence[Sequence[int]]:
    return sample.kept or [()] * len(sample.completion)
