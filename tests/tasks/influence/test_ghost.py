"""Ghost products against explicit per-sample gradients."""

from collections.abc import Callable

import pytest
import torch
from plain_scores import sample_logprobs

from tasks.errors import GraftError
from tasks.influence.ghost import Direction, ghost_products, lora_factors
from tasks.influence.influence import policy_losses
from tasks.policy.averaging import Averaging
from tasks.policy.base import Policy
from tasks.policy.samples import Sample

MakePolicy = Callable[..., Policy]
MakeSamples = Callable[..., list[Sample]]


def losses_of(policy: Policy, samples: list[Sample]) -> torch.Tensor:
    logprobs = sample_logprobs(policy.model, samples, 0.7)
    return policy_losses(logprobs, samples, Averaging("dapo", longest=64), 50)


def random_direction(policy: Policy, keep: str = "lora_") -> Direction:
    generator = torch.Generator().manual_seed(3)
    return {
        name: torch.randn(m.weight.shape, generator=generator, dtype=torch.float64).to(m.weight.dtype) * (keep in name)
        for name, m in lora_factors(policy.model).items()
    }


def explicit(policy: Policy, samples: list[Sample], direction: Direction) -> tuple[torch.Tensor, torch.Tensor]:
    """One plain backward for each sample, alone in its batch."""
    weights = [module.weight for module in lora_factors(policy.model).values()]
    products, norms = [], []
    for sample in samples:
        gradient = torch.autograd.grad(losses_of(policy, [sample]).sum(), weights)
        products.append(sum((g.double() * v).sum() for g, v in zip(gradient, direction.values(), strict=True)))
        norms.append(torch.cat([g.double().flatten() for g in gradient]).norm())
    return torch.stack(products), torch.stack(norms)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-9)])
@pytest.mark.parametrize("kind", ["qwen2", "llama", "gpt2"])
def test_products_and_norms_equal_explicit_per_sample_gradients(
    kind: str, dtype: str, tolerance: float, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    """The batch is padded on both sides, the explicit samples are not: padding never changes anything."""
    policy, samples = make_policy(kind, dtype), make_samples()
    direction = random_direction(policy)
    products, norms = ghost_products(policy.model, direction, lambda: losses_of(policy, samples))
    expected_products, expected_norms = explicit(policy, samples, direction)
    assert (products - expected_products).norm() <= tolerance * expected_products.norm()
    assert ((norms - expected_norms).abs() <= tolerance * expected_norms).all()


def test_a_fresh_adapter_has_no_gradient_in_a_and_one_in_b(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    policy, samples = make_policy(fresh=True), make_samples()
    a, _ = ghost_products(policy.model, random_direction(policy, "lora_A"), lambda: losses_of(policy, samples))
    b, norms = ghost_products(policy.model, random_direction(policy, "lora_B"), lambda: losses_of(policy, samples))
    assert not a.any()
    assert b.all()
    assert norms.all()


def test_nothing_is_left_behind(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    """Neither hooks nor frozen weights nor gradients, also when the pass breaks off."""
    policy, samples = make_policy(), make_samples()

    def broken() -> torch.Tensor:
        losses_of(policy, samples)
        raise ZeroDivisionError

    ghost_products(policy.model, random_direction(policy), lambda: losses_of(policy, samples))
    with pytest.raises(ZeroDivisionError):
        ghost_products(policy.model, random_direction(policy), broken)
    assert not any(m._forward_hooks or m._backward_hooks for m in policy.model.modules())
    for name, parameter in policy.model.named_parameters():
        assert parameter.requires_grad == ("lora_" in name)
        assert parameter.grad is None


def test_a_trained_weight_outside_the_adapter_is_an_error(make_policy: MakePolicy) -> None:
    policy = make_policy()
    policy.model.get_input_embeddings().weight.requires_grad_(True)
    with pytest.raises(GraftError, match=r"embed_tokens.weight is trained but is no LoRA matrix"):
        lora_factors(policy.model)
