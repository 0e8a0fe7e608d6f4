"""Groups of samples, random log-probabilities, and a policy's trained weights and gradients in one vector."""

import random
from collections.abc import Iterable

import pytest
import torch

from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.micro_batches import MicroBatch, RowLayout
from tasks.model.scoring.scorer import Scorer
from tasks.objective.groups import SampleGroup, groups_by_split
from tasks.objective.recorded_logprobs import Logprobs, sample_key, score_samples
from tasks.params.sections import Update
from tasks.trajectories import RewardedTrajectory
from tasks.update.step_plan import UpdateGroup

TRAINING_LAYOUTS: tuple[RowLayout, ...] = ("packed", "rows")
"""Those whose gradient is of all positions."""

DENSE_OR_FUSED = [pytest.param("cpu", id="dense"), pytest.param("cuda", id="fused")]
"""Packed attention with the kernels of a CPU, or with those of a card."""


def groups_of(samples: list[Sample]) -> list[UpdateGroup]:
    """One group per problem, in the order of the samples; its denominator is the number of its tokens."""
    own: dict[str, list[Sample]] = {}
    for sample in samples:
        own.setdefault(sample.problem_id, []).append(sample)
    return [UpdateGroup(name, some, sum(len(s.completion) for s in some)) for name, some in own.items()]


def reference_scores(scorer: Scorer, samples: list[Sample]) -> Logprobs:
    """Log-probabilities by the reference: the adapter switched off."""
    with scorer.model.disable_adapter():
        return score_samples(scorer, samples)


def random_logprobs(samples: list[Sample], seed: int) -> Logprobs:
    """Log-probabilities of their tokens by no model: with them ratios are not 1."""
    rng = random.Random(seed)
    return {sample_key(s): torch.tensor([rng.gauss(-5.7, 0.3) for _ in s.completion]) for s in samples}


def weights_of(policy: Policy) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in policy.model.parameters() if p.requires_grad])


def gradient_of(policy: Policy) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in policy.model.parameters() if p.grad is not None])


def value_and_gradient(policy: Policy, samples: list[Sample], bf16: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum of the samples' log-probabilities in padded rows, and its gradient."""
    policy.model.zero_grad()
    total = Scorer(policy.model, 0, 0.7, bf16=bf16).score(MicroBatch("rows", [[s] for s in samples])).logprobs.sum()
    total.backward()  # type: ignore[no-untyped-call]
    return total.detach(), gradient_of(policy)


def sample_groups(policy: Policy, rewarded: Iterable[RewardedTrajectory], update: Update) -> list[SampleGroup]:
    """A group for each trajectory of one split, which is the batch."""
    first, *others = rewarded
    split = first.trajectory.split
    return groups_by_split(policy, [first, *others], [split], update)[split]
