"""Per-sample gradients equal a plain backward pass for each sample, alone in its batch."""

import pytest
import torch
from torch import nn

from tasks.errors import GraftError
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.select.sample_gradients import (
    SampleGradients,
    collect_gradients,
    lora_factors,
    products,
    squared_norms,
    weighted_sum,
)
from tests.support.influence import checkpoint, flat, score_rows, uneven_model
from tests.support.plain_scores import sample_logprobs
from tests.support.policies import MakePolicy


def found_for(policy: Policy, samples: list[Sample]) -> SampleGradients:
    return collect_gradients(policy.model, lambda: sample_logprobs(policy.model, samples, 0.7).sum(1))


def rows_of(policy: Policy, scores: SampleGradients) -> torch.Tensor:
    """[n, P]"""
    return torch.cat([scores[name].flatten(1) for name in lora_factors(policy.model)], 1)


@pytest.mark.usefixtures("lora_path")
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-9)])
@pytest.mark.parametrize("kind", ["qwen2", "llama", "gpt2"])
def test_gradients_are_those_of_a_backward_pass_for_each_sample(
    kind: str, dtype: str, tolerance: float, make_policy: MakePolicy, samples: list[Sample]
) -> None:
    """The batch is padded on both sides, the single samples are not: padding never changes a gradient.

    In float64 only gpt2 is exact: the norms of the others are computed in float32 unless they are fused.
    """
    policy = make_policy(kind, dtype)
    found, expected = rows_of(policy, found_for(policy, samples)), score_rows(policy, samples)
    within = tolerance if kind == "gpt2" else max(tolerance, 2e-6)
    assert ((found - expected).norm(dim=1) <= within * expected.norm(dim=1)).all()
    direction = torch.randn(expected.shape[1], dtype=expected.dtype, generator=torch.Generator().manual_seed(0))
    assert ((found @ direction).sign() == (expected @ direction).sign()).all()


def test_a_fresh_adapter_has_no_gradient_in_a_and_one_in_b(make_policy: MakePolicy, samples: list[Sample]) -> None:
    for name, own in found_for(make_policy(fresh=True), samples).items():
        assert bool(own.flatten(1).any(1).all()) == bool(own.any()) == ("lora_B" in name)


def test_gradient_checkpointing_never_changes_a_gradient(policy: Policy, samples: list[Sample]) -> None:
    expected, calls = rows_of(policy, found_for(policy, samples)), checkpoint(policy)
    torch.testing.assert_close(rows_of(policy, found_for(policy, samples)), expected)
    assert len(calls) == 2


@pytest.mark.usefixtures("lora_path")
def test_calls_of_one_layer_add_up_and_one_that_is_never_called_has_zero() -> None:
    model, ids = uneven_model(), torch.randint(20, (4, 3))
    found, factors = collect_gradients(model, lambda: model(ids)), lora_factors(model)
    weights = [module.weight for module in factors.values()]
    for row in range(4):
        alone = torch.autograd.grad(model(ids[row : row + 1]).sum(), weights, allow_unused=True)
        for name, gradient in zip(factors, alone, strict=True):
            expected = torch.zeros_like(found[name][row]) if gradient is None else gradient
            torch.testing.assert_close(found[name][row], expected, rtol=1e-10, atol=1e-12)
    assert {name for name, own in found.items() if not own.any()} == {name for name in factors if "never" in name}


@pytest.mark.usefixtures("lora_path")
def test_tokens_of_several_samples_in_one_row_are_refused() -> None:
    model = uneven_model()
    one_row = nn.Sequential(model.get_base_model().embedding, nn.Flatten(0, 1), model.get_base_model().twice)
    with pytest.raises(GraftError, match=r"twice.*several samples in one row"):
        collect_gradients(model, lambda: one_row(torch.randint(20, (4, 3))).sum(1))


def test_gradients_are_in_float32_whatever_the_weights_are(policy: Policy, samples: list[Sample]) -> None:
    expected = rows_of(policy, found_for(policy, samples))
    with torch.autocast("cpu", torch.bfloat16):
        cast = found_for(policy, samples)
    policy.model.to(torch.bfloat16)
    for found in (cast, found_for(policy, samples)):
        assert all(own.dtype == torch.float32 for own in found.values())
        assert (torch.cosine_similarity(rows_of(policy, found), expected) > 0.999).all()


def test_arithmetic_by_layer_is_that_of_the_joined_matrix(exact: Policy, samples: list[Sample]) -> None:
    scores = found_for(exact, samples)
    matrix, weights = rows_of(exact, scores), torch.randn(len(samples), dtype=torch.float64)
    direction = weighted_sum(scores, weights)
    joined = flat(direction[name] for name in lora_factors(exact.model))
    torch.testing.assert_close(joined, weights @ matrix)
    torch.testing.assert_close(products(scores, direction), matrix @ joined)
    torch.testing.assert_close(squared_norms(scores), matrix.square().sum(1))


def test_nothing_is_left_behind(policy: Policy, samples: list[Sample]) -> None:
    """Neither hooks nor frozen weights nor gradients, also when the pass breaks off."""
    found_for(policy, samples)
    with pytest.raises(ZeroDivisionError):
        collect_gradients(policy.model, lambda: sample_logprobs(policy.model, samples, 0.7).sum(1) / (1 // 0))
    assert not any(m._forward_hooks or m._backward_hooks or "forward" in vars(m) for m in policy.model.modules())
    for name, parameter in policy.model.named_parameters():
        assert parameter.requires_grad == ("lora_" in name)
        assert parameter.grad is None


def test_a_trained_weight_outside_the_adapter_is_an_error(policy: Policy) -> None:
    policy.model.get_input_embeddings().weight.requires_grad_(True)
    with pytest.raises(GraftError, match=r"embed_tokens.weight is trained but is no LoRA matrix"):
        lora_factors(policy.model)
