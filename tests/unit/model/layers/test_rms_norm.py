"""Fused RMS norms give the same numbers, and no other module is fused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm

from tasks.model.layers.rms_norm import fused_norms
from tasks.model.scoring.scorer import Scorer

WIDTH = 6


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def norm_of(kind: Callable[[int], Any]) -> Any:
    made = kind(WIDTH).double()
    made.weight.data = drawn(1, WIDTH)
    return made


def is_fused(module: nn.Module) -> bool:
    with fused_norms(module):
        return "forward" in vars(module)


@pytest.mark.parametrize(("kind", "within"), [(lambda n: nn.RMSNorm(n, eps=1e-6), 1e-10), (Qwen2RMSNorm, 1e-5)])
def test_value_and_gradients_are_exact(kind: Callable[[int], Any], within: float) -> None:
    """Transformers' own are computed in float32 whatever comes in."""
    norm, above = norm_of(kind), drawn(2, 2, 3, WIDTH)
    results = []
    for fused in (False, True):
        x = drawn(3, 2, 3, WIDTH).mul(1e-3).requires_grad_()
        with fused_norms(norm if fused else nn.Identity()):
            found = norm(x)
            with torch.no_grad():
                idle = norm(x)
        results.append([found, idle, *torch.autograd.grad((found * above).sum(), [x, norm.weight])])
    assert is_fused(norm)
    assert "forward" not in vars(norm)
    for ours, theirs in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=within, atol=within * 1e-2)


def test_other_norms_and_layers_are_not_fused() -> None:
    assert not is_fused(norm_of(GemmaRMSNorm))  # 1 + its weight
    assert not is_fused(norm_of(nn.LayerNorm))
    assert not is_fused(nn.Linear(WIDTH, WIDTH, bias=False))
    assert not is_fused(norm_of(GemmaRMSNorm).bfloat16())


def test_autocast_and_other_types_are_not_fused_and_a_forward_of_another_library_stays() -> None:
    norm, x = Qwen2RMSNorm(WIDTH), drawn(4, 3, WIDTH)
    usual = norm(x.bfloat16())
    with fused_norms(norm):
        assert torch.equal(norm(x.bfloat16()), usual)
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(norm(x.float()), Qwen2RMSNorm.forward(norm, x.float()))
    norm.forward = norm.forward  # as accelerate does
    with fused_norms(norm):
        pass
    assert "forward" in vars(norm)


@pytest.mark.parametrize(("kind", "norms"), [("qwen2", 5), ("llama", 5), ("gpt2", 0)])
def test_a_model_keeps_its_scores(kind: str, norms: int, make_policy: Any, samples: Any) -> None:
    policy = make_policy(kind)
    scorer = Scorer(policy.model, 0, 0.7)
    (batch,) = scorer.batches(samples)
    usual = scorer.score(batch).logprobs
    with fused_norms(policy.model):
        assert sum("forward" in vars(module) for module in policy.model.modules()) == norms
        fused = scorer.score(batch).logprobs
    torch.testing.assert_close(fused, usual, atol=1e-5, rtol=0)
