"""Even spread of kinds and templates over a split."""

import random
from collections.abc import Sequence
from typing import TypeVar

from tasks.seeds import derive_seed

T = TypeVar("T")

HELD_OUT = 4
"""One in HELD_OUT templates is held out from train and validation."""


def spread(share: float, size: int) -> list[bool]:
    """True for `share` of `size` places, evenly spread: the rounded running count grows there."""
    return [round((index + 1) * share) > round(index * share) for index in range(size)]


def cycle(templates: Sequence[T], size: int, seed: int, split: str, name: str) -> list[T]:
    """`size` templates in shuffled cycles, so that their counts differ by at most one; taken from the end."""
    order: list[T] = []
    while templates and len(order) < size:
        rng = random.Random(derive_seed(seed, "problems", split, name, len(order)))
        order += rng.sample(templates, len(templates))
    return order[:size][::-1]
