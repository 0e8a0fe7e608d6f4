"""Shapes of real models with random weights, and policies of them; nothing is downloaded."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks.step_sides import Shape, model_of, tokenizer_of
from tasks.records import Dtype

if TYPE_CHECKING:
    from tasks.model.policy import Policy

SIZES = {"intermediate": 4864, "heads": 14, "tied": True, "prompts": 64, "longest": 512, "rank": 16}
SHAPES = {
    "0.5b": (qwen := Shape(256, skewed=False, threads=0, vocabulary=151_936, hidden=896, layers=24, **SIZES)),
    "1.5b": replace(qwen, hidden=1536, layers=28, intermediate=8960, heads=12),
}
"""Those of Qwen2.5, in a step of 64 prompts of 256 tokens with 8 completions of 512 each."""

TINY = replace(qwen, prompt=16, vocabulary=512, hidden=64, layers=2, intermediate=96, heads=4, prompts=4, longest=8)
"""For a CPU: does it run?"""

SMALL = replace(qwen, prompt=40, vocabulary=2048, hidden=256, layers=4, intermediate=688, heads=4, prompts=6)
"""Of the laws that float64 decides."""


def base_of(shape: Shape, dtype: Dtype = "bfloat16") -> Any:
    """The model without an adapter, made on the card."""
    import torch

    from tasks.model.policy import best_device

    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        with torch.device(best_device()):
            return model_of(shape).eval()
    finally:
        torch.set_default_dtype(before)


def policy_of(shape: Shape, dtype: Dtype = "bfloat16", spread: float = 0.002) -> "Policy":
    """A policy with an adapter whose B has this standard deviation; a completion ends at its length alone."""
    import torch

    from tasks.model.policy import Policy, attach_adapter

    model = attach_adapter(base_of(shape, dtype), shape.rank, 2.0 * shape.rank, 0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.copy_(spread * torch.randn(weight.shape, generator=generator))
    tokenizer = tokenizer_of(shape)
    tokenizer.add_special_tokens({"eos_token": "<never>"})  # no token of the model
    return Policy(model, tokenizer, "", "scratch")
