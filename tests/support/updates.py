"""What tests of an update need: samples in groups, and a policy's trained weights and gradients in one vector."""

import torch

from tasks.grpo.step_plan import UpdateGroup
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.micro_batches import Layout

TRAINING_LAYOUTS: tuple[Layout, ...] = ("packed", "rows")
"""Those whose gradient is of all positions."""


def groups_of(samples: list[Sample]) -> list[UpdateGroup]:
    """One group per problem, in the order of the samples; its denominator is the number of its tokens."""
    own: dict[str, list[Sample]] = {}
    for sample in samples:
        own.setdefault(sample.problem_id, []).append(sample)
    return [UpdateGroup(name, some, sum(len(s.completion) for s in some)) for name, some in own.items()]


def weights_of(policy: Policy) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in policy.model.parameters() if p.requires_grad])


def gradient_of(policy: Policy) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in policy.model.parameters() if p.grad is not None])
