"""RMS norms of 16 bits in one operation are as near to the exact numbers, and no other module is fused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm

from tasks.model.layers.rms_norm import fused_norms

WIDTH = 6


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def norm_of(kind: Callable[[int], Any], dtype: torch.dtype = torch.bfloat16) -> Any:
    made = kind(WIDTH).to(dtype)
    made.weight.data = drawn(1, WIDTH).to(dtype)
    return made


def is_fused(module: nn.Module) -> bool:
    with fused_norms(module):
        return "forward" in vars(module)


@pytest.mark.parametrize("kind", [lambda n: nn.RMSNorm(n, eps=1e-6), Qwen2RMSNorm])
def test_value_and_gradients_are_exact_to_rounding(kind: Callable[[int], Any]) -> None:
    """x is so small that ε matters; a float16 or bfloat16 has 8 bits or more."""
    norm, above = norm_of(kind), drawn(2, 2, 3, WIDTH)
    small = drawn(3, 2, 3, WIDTH).mul(1e-3).bfloat16()
    weight = norm.weight.detach().double().requires_grad_()
    x = small.double().requires_grad_()
    exact = x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weight
    wanted = [exact, *torch.autograd.grad((exact * above).sum(), [x, weight])]
    x = small.clone().requires_grad_()
    with fused_norms(norm):
        assert "forward" in vars(norm)
        value = norm(x)
    found = [value, *torch.autograd.grad((value * above.bfloat16()).sum(), [x, norm.weight])]
    assert "forward" not in vars(norm)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == torch.bfloat16
        assert (ours.double() - theirs).norm() < 0.01 * theirs.norm()


def test_other_norms_layers_and_types_are_not_fused() -> None:
    assert not is_fused(norm_of(GemmaRMSNorm))  # 1 + its weight
    assert not is_fused(norm_of(nn.LayerNorm))
    assert not is_fused(nn.Linear(WIDTH, WIDTH, bias=False).bfloat16())
    assert not is_fused(norm_of(Qwen2RMSNorm, torch.float32))


def test_autocast_and_other_inputs_are_not_fused_and_a_forward_of_another_library_stays() -> None:
    norm, x = norm_of(Qwen2RMSNorm), drawn(4, 3, WIDTH)
    usual, narrow = norm(x.float()), norm(x.bfloat16())
    with fused_norms(norm):
        assert torch.equal(norm(x.float()), usual)
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(norm(x.bfloat16()), narrow)
    norm.forward = norm.forward  # as accelerate does
    with fused_norms(norm):
        pass
    assert "forward" in vars(norm)


@pytest.mark.parametrize(("kind", "norms"), [("qwen2", 5), ("llama", 5), ("gpt2", 0)])
def test_the_norms_of_a_model_are_found(kind: str, norms: int, make_policy: Any) -> None:
    model = make_policy(kind, "bfloat16").model
    with fused_norms(model):
        assert sum("forward" in vars(module) for module in model.modules()) == norms
