"""Groups of random samples, and what the laws compare of a policy that learned from them."""

import random
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from benchmarks.step_sides import FIRST, Shape
from tasks.model.sample import Sample
from tasks.update.step_plan import UpdateGroup

if TYPE_CHECKING:
    from torch import Tensor


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


def trained(model: Any) -> dict[str, "Tensor"]:
    """The trained weights by name."""
    return {name: weight for name, weight in sorted(model.named_parameters()) if weight.requires_grad}


def digest_of(model: Any) -> str:
    """sha256 of the bytes of the trained weights."""
    return sha256(b"".join(w.detach().float().cpu().numpy().tobytes() for w in trained(model).values())).hexdigest()


def gradient_of(model: Any) -> "Tensor":
    """The gradient of the trained weights, in float64 on the CPU."""
    import torch

    return torch.cat([w.grad.double().cpu().flatten() for w in trained(model).values() if w.grad is not None])
