"""Mismatch between log-probabilities of the same tokens that were computed in two ways.

With d = log p_own - log p_recorded of a token that was drawn from p_recorded:

    mean, max    of |d|
    kl           mean of e^d - 1 - d, an estimate of KL(recorded ‖ own) of a token: k3 (Schulman 2020)
    bounded      share of tokens with e^d above BOUND, where tasks/update/sampler_correction.py acts

The law of two ways that are right:

    both in float32     max ≤ 1e-3
    otherwise           kl ≤ 2e-3 and mean ≤ 0.05

Measured with vLLM 0.32 on SmolLM2-135M (docs/engines.md): right ones have a max of 1e-4 in float32, and in bfloat16 a
kl of 1.5e-3 and a mean of 0.03; those of another adapter a mean of 0.07 and a kl of 8e-3, raw ones a mean of 0.18.
Graft's own sampler and scorer differ in bfloat16 by as much.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

MAX_IN_FLOAT32 = 1e-3
MOST_KL = 2e-3
MOST_MEAN = 0.05

BOUND = 2.0
"""Bound of an importance weight e^d."""

LARGEST = 50.0
"""Largest difference in an exponential; that of a larger one may be no number."""


@dataclass(frozen=True)
class Mismatch:
    """The mismatch of N tokens."""

    mean: float
    max: float
    kl: float
    bounded: float

    def is_lawful(self, in_float32: bool) -> bool:
        """Whether both ways are right; `in_float32`: both compute in it."""
        return self.max <= MAX_IN_FLOAT32 if in_float32 else self.kl <= MOST_KL and self.mean <= MOST_MEAN

    def __str__(self) -> str:
        return f"by {self.mean:.2g} on average, {self.max:.2g} at most, with a KL of {self.kl:.2g} a token"


def mismatch_of(differences: Sequence[float]) -> Mismatch:
    """The mismatch of N ≥ 1 tokens by their d [N]."""
    sizes = [abs(d) for d in differences]
    return Mismatch(
        mean=math.fsum(sizes) / len(sizes),
        max=max(sizes, key=lambda size: math.inf if math.isnan(size) else size),
        kl=math.fsum(math.expm1(min(d, LARGEST)) - d for d in differences) / len(sizes),
        bounded=sum(d > math.log(BOUND) for d in differences) / len(sizes),
    )
