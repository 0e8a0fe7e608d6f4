"""Per-sample gradients against a plain backward pass for each sample, alone in its batch."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from tasks.errors import GraftError
from tasks.influence.gradient_algebra import products, squared_norms, sum_directions, weighted_sum
from tasks.influence.sample_gradients import SampleGradients, lora_factors, sample_gradients
from tasks.model.fast_layers import merged_lora as merged
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tests.support.plain_scores import sample_logprobs

MakePolicy = Callable[..., Policy]
MakeSamples = Callable[..., list[Sample]]


def scores_of(policy: Policy, samples: list[Sample]) -> torch.Tensor:
    return sample_logprobs(policy.model, samples, 0.7).sum(1)


def found_for(policy: Policy, samples: list[Sample]) -> SampleGradients:
    return sample_gradients(policy.model, lambda: scores_of(policy, samples))


def explicit(policy: Policy, samples: list[Sample]) -> SampleGradients:
    """One plain backward for each sample, alone in its batch."""
    factors = lora_factors(policy.model)
    weights = [module.weight for module in factors.values()]
    rows = [torch.autograd.grad(scores_of(policy, [sample]).sum(), weights) for sample in samples]
    return {name: torch.stack([row[place] for row in rows]) for place, name in enumerate(factors)}


def flat(scores: SampleGradients) -> torch.Tensor:
    return torch.cat([scores[name].flatten(1) for name in sorted(scores)], 1)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-9)])
@pytest.mark.parametrize("known", [True, False], ids=["merged", "hooks"])
@pytest.mark.parametrize("kind", ["qwen2", "llama", "gpt2"])
def test_gradients_are_those_of_a_backward_pass_for_each_sample(
    kind: str, known: bool, dtype: str, tolerance: float, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    """The batch is padded on both sides, the explicit samples are not: padding never changes anything.

    In float64 only gpt2 is exact: the norms of the others are computed in float32 unless they are fused.
    """
    policy, samples = make_policy(kind, dtype), make_samples()
    with patch.object(merged, "MERGED_PARAMETERS", 500_000_000 if known else 0):
        found = flat(found_for(policy, samples))
    expected = flat(explicit(policy, samples))
    within = tolerance if kind == "gpt2" else max(tolerance, 2e-6)
    assert ((found - expected).norm(dim=1) <= within * expected.norm(dim=1)).all()
    direction = torch.randn(expected.shape[1], dtype=expected.dtype, generator=torch.Generator().manual_seed(0))
    assert ((found @ direction).sign() == (expected @ direction).sign()).all()


def test_a_fresh_adapter_has_no_gradient_in_a_and_one_in_b(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    for name, own in found_for(make_policy(fresh=True), make_samples()).items():
        assert bool(own.flatten(1).any(1).all()) == ("lora_B" in name)
        assert bool(own.any()) == ("lora_B" in name)


def test_gradient_checkpointing_changes_nothing(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    policy, samples = make_policy(), make_samples()
    expected = flat(found_for(policy, samples))
    policy.model.gradient_checkpointing_enable({"use_reentrant": False})
    policy.model.train()  # transformers checkpoints only then; no layer here has dropout
    calls: list[int] = []
    policy.model.get_base_model().model.layers[0].mlp.register_forward_pre_hook(lambda *_args: calls.append(1))
    found = flat(found_for(policy, samples))
    assert len(calls) == 2
    torch.testing.assert_close(found, expected)


class Twice(nn.Module):
    """A model that calls one adapted layer twice, and another never."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.layer = nn.Linear(6, 6)
        self.idle = nn.Linear(6, 6)
        self.config: dict[str, Any] = {}

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.layer(self.layer(self.embedding(input_ids)).tanh()).square().sum((1, 2))  # type: ignore[no-any-return]


@pytest.mark.parametrize("known", [True, False], ids=["merged", "hooks"])
def test_calls_of_one_layer_add_up_and_one_that_is_never_called_has_zero(known: bool) -> None:
    torch.manual_seed(0)
    config = LoraConfig(r=2, target_modules=["layer", "idle"], init_lora_weights=False)
    model = get_peft_model(Twice(), config).double()
    ids = torch.randint(20, (4, 3))
    with patch.object(merged, "MERGED_PARAMETERS", 500_000_000 if known else 0):
        found = sample_gradients(model, lambda: model(ids))
    factors = lora_factors(model)
    for row in range(4):
        weights = [module.weight for module in factors.values()]
        alone = torch.autograd.grad(model(ids[row : row + 1]).sum(), weights, allow_unused=True)
        for name, gradient in zip(factors, alone, strict=True):
            expected = torch.zeros_like(found[name][row]) if gradient is None else gradient
            torch.testing.assert_close(found[name][row], expected, rtol=1e-10, atol=1e-12)
    assert any(not own.any() for own in found.values())


@pytest.mark.parametrize("known", [True, False], ids=["merged", "hooks"])
def test_tokens_of_several_samples_in_one_row_are_refused(known: bool) -> None:
    config = LoraConfig(r=2, target_modules=["layer"], init_lora_weights=False)
    model = get_peft_model(Twice(), config)
    flat_rows = nn.Sequential(model.get_base_model().embedding, nn.Flatten(0, 1), model.get_base_model().layer)
    with (
        patch.object(merged, "MERGED_PARAMETERS", 500_000_000 if known else 0),
        pytest.raises(GraftError, match=r"layer.*several samples in one row"),
    ):
        sample_gradients(model, lambda: flat_rows(torch.randint(20, (4, 3))).sum(1))


def test_products_are_taken_in_full_precision_whatever_the_weights_are(
    make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples = make_policy(), make_samples()
    expected = flat(found_for(policy, samples))
    with torch.autocast("cpu", torch.bfloat16):
        cast = found_for(policy, samples)
    policy.model.to(torch.bfloat16)
    narrow = found_for(policy, samples)
    for found in (cast, narrow):
        assert all(own.dtype == torch.float32 for own in found.values())
        cosines = torch.cosine_similarity(flat(found), expected)
        assert (cosines > 0.999).all()


def test_the_arithmetic_is_that_of_whole_matrices(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    policy, samples = make_policy("gpt2", "float64"), make_samples()
    scores = found_for(policy, samples)
    matrix, weights = flat(scores), torch.randn(len(samples), dtype=torch.float64)
    direction = weighted_sum(scores, weights)
    whole = torch.cat([direction[name].flatten() for name in sorted(direction)])
    torch.testing.assert_close(whole, weights @ matrix)
    torch.testing.assert_close(products(scores, direction), matrix @ whole)
    torch.testing.assert_close(squared_norms(scores), matrix.square().sum(1))
    for name, twice in sum_directions([direction, direction]).items():
        torch.testing.assert_close(twice, 2 * direction[name])
    assert sum_directions([]) == {}


def test_nothing_is_left_behind(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    """Neither hooks nor frozen weights nor gradients, also when the pass breaks off."""
    policy, samples = make_policy(), make_samples()

    def broken() -> torch.Tensor:
        scores_of(policy, samples)
        raise ZeroDivisionError

    found_for(policy, samples)
    with pytest.raises(ZeroDivisionError):
        sample_gradients(policy.model, broken)
    assert not any(m._forward_hooks or m._backward_hooks or "forward" in vars(m) for m in policy.model.modules())
    for name, parameter in policy.model.named_parameters():
        assert parameter.requires_grad == ("lora_" in name)
        assert parameter.grad is None


def test_a_trained_weight_outside_the_adapter_is_an_error(make_policy: MakePolicy) -> None:
    policy = make_policy()
    policy.model.get_input_embeddings().weight.requires_grad_(True)
    with pytest.raises(GraftError, match=r"embed_tokens.weight is trained but is no LoRA matrix"):
        lora_factors(policy.model)
