"""LoRA linears in fewer operations give the same numbers, and no replaced forward remains."""

import copy
from dataclasses import replace

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch.utils._python_dispatch import TorchDispatchMode

from tasks.model.layers import lora_linears as merged
from tasks.model.layers.lora_linears import merged_linears, narrow_linears
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tests.support.policies import MakePolicy
from tests.support.updates import value_and_gradient


def merged_count(policy: Policy) -> int:
    return sum("forward" in vars(module) for module in policy.model.modules())


@pytest.mark.parametrize(("kind", "linears", "fresh", "dtype", "within"), [
    ("qwen2", 14, False, "float32", 1e-5), ("qwen2", 14, True, "float64", 1e-12),
    ("llama", 14, False, "float64", 1e-12), ("gpt2", 0, False, "float32", 1e-5),
])  # fmt: skip
def test_merged_ones_have_value_and_gradient_of_the_separate_products(
    kind: str, linears: int, fresh: bool, dtype: str, within: float, make_policy: MakePolicy, samples: list[Sample]
) -> None:
    """GPT-2 has only transposed linears, which are not merged."""
    policy = make_policy(kind, dtype, fresh=fresh)
    value, gradient = value_and_gradient(policy, samples)
    with merged_linears(policy.model):
        assert merged_count(policy) == linears
        merged_value, merged_gradient = value_and_gradient(policy, samples)
    assert merged_count(policy) == 0
    torch.testing.assert_close(merged_value, value, rtol=1e-5, atol=0)
    assert (merged_gradient - gradient).norm() <= within * gradient.norm()


def test_changed_weights_are_merged_again(policy: Policy, samples: list[Sample]) -> None:
    with merged_linears(policy.model):
        before, _ = value_and_gradient(policy, samples)
    with torch.no_grad():
        for name, weight in policy.model.named_parameters():
            if "lora_B" in name:
                weight.add_(0.1)
    with merged_linears(policy.model):
        after, _ = value_and_gradient(policy, samples)
    plain, _ = value_and_gradient(policy, samples)
    assert abs(float(after - before)) > 0.1
    torch.testing.assert_close(after, plain, rtol=1e-5, atol=0)


def test_other_linears_are_not_merged(policy: Policy, make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    def merged_in(policy: Policy) -> int:
        with merged_linears(policy.model):
            return merged_count(policy)

    with pytest.raises(ZeroDivisionError), merged_linears(policy.model):
        raise ZeroDivisionError
    assert merged_count(policy) == 0  # no forward remains when the block fails
    assert merged_in(policy) == 14
    with policy.model.disable_adapter():
        assert merged_in(policy) == 0
    assert merged_in(make_policy(dtype="bfloat16")) == 0
    for settings in ({"use_dora": True}, {"lora_dropout": 0.1}, {"lora_bias": True}):
        config = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM", **settings)
        other = replace(policy, model=get_peft_model(make_policy().model.unload(), config))
        assert merged_in(other) == 0, settings
    assert merged_in(replace(policy, model=policy.model.get_base_model())) == 14
    monkeypatch.setattr(merged, "MERGED_PARAMETERS", 1000)
    assert merged_in(policy) == 0


def test_nothing_is_merged_under_autocast(policy: Policy, samples: list[Sample]) -> None:
    value, gradient = value_and_gradient(policy, samples, bf16=True)
    with torch.autocast("cpu", torch.bfloat16), merged_linears(policy.model):
        merged_value, merged_gradient = value_and_gradient(policy, samples, bf16=True)
    assert torch.equal(merged_value, value)
    assert torch.equal(merged_gradient, gradient)


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
def test_narrow_ones_are_as_near_as_a_float32_adapter(
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


def test_other_linears_are_not_narrow(make_policy: MakePolicy, make_narrow: MakePolicy, samples: list[Sample]) -> None:
    policy = make_narrow("qwen2")
    usual = value_and_gradient(policy, samples, bf16=True)
    with narrow_linears(policy.model):
        for ours, theirs in zip(value_and_gradient(policy, samples, bf16=True), usual, strict=True):
            assert torch.equal(ours, theirs)  # under autocast
    exact = make_policy("qwen2", "float32")
    with narrow_linears(exact.model), policy.model.disable_adapter(), narrow_linears(policy.model):
        assert not any("forward" in vars(m) for model in (exact.model, policy.model) for m in model.modules())
