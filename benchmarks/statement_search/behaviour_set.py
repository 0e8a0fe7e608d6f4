"""Hash set of program behaviours for each problem of a batch, and their fingerprints."""

import numpy as np
from numpy.typing import NDArray

from benchmarks.statement_search.random_bits import mix_bits

Keys = NDArray[np.uint64]

DIGITS = 30
"""Binary digits of precision in comparisons, about nine decimal ones."""


def fingerprints(values: NDArray[np.float64]) -> Keys:
    """[B] of behaviours `values` [B, I]: equal if the values agree on all I inputs; never 0."""
    with np.errstate(all="ignore"):
        mantissas, exponents = np.frexp(values)
        whole = np.ldexp(np.rint(np.ldexp(mantissas, DIGITS)), exponents) + 0.0  # + 0.0: there is one zero
    bits = np.ascontiguousarray(whole).view(np.uint64)
    mixed = np.zeros(len(values), dtype=np.uint64)
    for column in range(values.shape[1]):
        mixed = mix_bits(mixed + bits[:, column] + np.uint64(0x9E3779B97F4A7C15))
    return np.maximum(mixed, np.uint64(1))


class BehaviourSet:
    """A set of keys for each of P problems: open addressing in one array [P, capacity], 0 = empty."""

    def __init__(self, problems: int, capacity: int = 256) -> None:
        self._table = np.zeros((problems, capacity), dtype=np.uint64)
        self._counts = np.zeros(problems, dtype=np.int64)

    def add(self, problems: NDArray[np.int64], keys: Keys) -> NDArray[np.bool_]:
        """Add a key to each of `problems` [B], at most one per problem. Returns [B]: True if the key is new."""
        if len(problems) and 2 * (int(self._counts[problems].max()) + 1) > self._table.shape[1]:
            self._grow()
        new = self._insert(problems, keys)
        self._counts[problems] += new
        return new

    def _insert(self, problems: NDArray[np.int64], keys: Keys) -> NDArray[np.bool_]:
        mask = np.uint64(self._table.shape[1] - 1)
        new = np.zeros(len(problems), dtype=bool)
        slots = (keys & mask).astype(np.int64)
        waiting = np.arange(len(problems))
        while len(waiting):
            rows, places, wanted = problems[waiting], slots[waiting], keys[waiting]
            there = self._table[rows, places]
            empty = there == 0
            self._table[rows[empty], places[empty]] = wanted[empty]
            new[waiting[empty]] = True
            on = ~empty & (there != wanted)
            waiting = waiting[on]
            slots[waiting] = (slots[waiting] + 1) & int(mask)
        return new

    def _grow(self) -> None:
        old = self._table
        self._table = np.zeros((len(old), 2 * old.shape[1]), dtype=np.uint64)
        for column in old.T:
            rows = np.flatnonzero(column)
            self._insert(rows, column[rows])
