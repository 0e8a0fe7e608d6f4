"""Adapters computed in 16 bits: as near to the exact numbers as peft's, in fewer operations."""

import copy
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tasks.model.layers.lora_linears import narrow_linears
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tests.support.policies import MakePolicy
from tests.support.updates import value_and_gradient

NEAR = 0.03  # of the norm of the gradient; a float32 adapter has 0.01 to 0.02


class Operations(TorchDispatchMode):
    """Counts operations."""

    count = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.count += 1
        return operation(*args, **kwargs or {})


@pytest.fixture
def make_narrow(make_policy: MakePolicy) -> MakePolicy:
    """Policies with a base in bfloat16 below a float32 adapter."""

    def make(kind: str) -> Policy:
        policy = make_policy(kind, "bfloat16")
        for weight in policy.model.parameters():
            if weight.requires_grad:
                weight.data = weight.data.float()
        return policy

    return make


@pytest.mark.parametrize("kind", ["qwen2", "llama"])
def test_value_and_gradient_are_as_near_as_those_of_a_float32_adapter(
    kind: str, make_narrow: MakePolicy, samples: list[Sample]
) -> None:
    policy = make_narrow(kind)
    exact_value, exact = value_and_gradient(replace(policy, model=copy.deepcopy(policy.model).float()), samples)
    with Operations() as usual:
        value_and_gradient(policy, samples)
    with narrow_linears(policy.model), Operations() as few:
        value, gradient = value_and_gradient(policy, samples)
    assert gradient.dtype == torch.float32
    assert few.count < usual.count
    assert float(abs(value - exact_value)) < 0.01 * float(exact_value.abs())
    assert (gradient - exact).norm() < NEAR * exact.norm()


def test_others_are_left_as_they_are(make_policy: MakePolicy, make_narrow: MakePolicy, samples: list[Sample]) -> None:
    policy = make_narrow("qwen2")
    usual = value_and_gradient(policy, samples, bf16=True)
    with narrow_linears(policy.model):
        for ours, theirs in zip(value_and_gradient(policy, samples, bf16=True), usual, strict=True):
            assert torch.equal(ours, theirs)  # under autocast
    exact = make_policy("qwen2", "float32")
    with narrow_linears(exact.model), policy.model.disable_adapter(), narrow_linears(policy.model):
        assert not any("forward" in vars(m) for model in (exact.model, policy.model) for m in model.modules())
