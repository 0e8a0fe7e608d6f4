"""Random numbers as stateless functions of a seed and counters."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Seeds = NDArray[np.uint64]


def uniform(seeds: Seeds, *counters: NDArray[np.int64]) -> Floats:
    """Numbers in [0, 1), a stateless function of the seed and the counters (splitmix64)."""
    mixed = seeds
    for counter in counters:
        mixed = mix_bits(mixed + counter.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    return (mixed >> np.uint64(11)).astype(np.float64) / float(1 << 53)


def mix_bits(keys: Seeds) -> Seeds:
    """The finaliser of splitmix64 (Steele et al. 2014)."""
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))
