"""Policies in the shapes of real models with random weights, and samples for them; nothing is downloaded."""

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks.step_sides import FIRST, Shape, model_of, tokenizer_of
from tasks.model.sample import Sample
from tasks.records.policy import Dtype
from tasks.update.step_plan import UpdateGroup

if TYPE_CHECKING:
    from tasks.model.policy import Policy

QWEN = Shape(
    prompt=256,
    skewed=False,
    threads=0,
    vocabulary=151_936,
    hidden=896,
    layers=24,
    intermediate=4864,
    heads=14,
    tied=True,
    prompts=64,
    longest=512,
    rank=16,
)
SHAPES = {"0.5b": QWEN, "1.5b": replace(QWEN, hidden=1536, layers=28, intermediate=8960, heads=12)}
"""Those of Qwen2.5, in a step of 64 prompts of 256 tokens with 8 completions of 512 each."""

SMALL = replace(QWEN, prompt=40, vocabulary=2048, hidden=256, layers=4, intermediate=688, heads=4)
TINY = replace(QWEN, prompt=16, vocabulary=512, hidden=64, layers=2, intermediate=96, heads=4, prompts=4, longest=8)


def base_of(shape: Shape, dtype: Dtype = "bfloat16") -> Any:
    """The model without an adapter, made on the card."""
    import torch

    from tasks.model.device import device_for

    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        with torch.device(device_for()):
            return model_of(shape).eval()
    finally:
        torch.set_default_dtype(before)


def policy_of(shape: Shape, dtype: Dtype = "bfloat16", spread: float = 0.002) -> "Policy":
    """A policy with an adapter whose B has this standard deviation; a completion ends at its length alone."""
    import torch

    from tasks.model.checkpoints.lora import attach_adapter
    from tasks.model.policy import Policy

    model = attach_adapter(base_of(shape, dtype), shape.rank, 2.0 * shape.rank, 0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.copy_(spread * torch.randn(weight.shape, generator=generator))
    tokenizer = tokenizer_of(shape)
    tokenizer.add_special_tokens({"eos_token": "<never>"})  # no token of the model
    return Policy(model, tokenizer, "", "scratch")


def base_weights(policy: "Policy") -> dict[str, Any]:
    """The weights below the adapter, by name."""
    return {name: weight for name, weight in policy.model.named_parameters() if "lora_" not in name}


def random_groups(shape: Shape, problems: int, size: int, lengths: tuple[int, int], seed: int = 0) -> list[UpdateGroup]:
    """Random tokens with random advantages, completions of lengths in this range."""
    rng, groups = random.Random(seed), []

    def draw(length: int) -> tuple[int, ...]:
        return tuple(rng.randrange(FIRST, shape.vocabulary) for _ in range(length))

    for p in range(problems):
        prompt = draw(rng.randint(shape.prompt // 2, shape.prompt))
        samples = [Sample(str(p), m, prompt, draw(rng.randint(*lengths)), (), rng.gauss(0, 1)) for m in range(size)]
        groups.append(UpdateGroup(str(p), samples, sum(len(s.completion) for s in samples)))
    return groups


def samples_of(groups: list[UpdateGroup]) -> list[Sample]:
    return [s for g in groups for s in g.samples]
