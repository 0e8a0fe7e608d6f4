import numpy as np

from benchmarks.statement_search.random_bits import uniform


def test_uniform_numbers_are_uniform_and_depend_on_seed_and_counters_alone() -> None:
    seeds, counters = np.full(20_000, 7, dtype=np.uint64), np.arange(20_000)
    numbers = uniform(seeds, counters)
    assert np.abs(np.histogram(numbers, bins=20, range=(0, 1))[0] - 1000).max() < 150  # five standard deviations
    assert uniform(seeds[:1], counters[5:6])[0] == numbers[5]
    assert len(set(uniform(np.arange(100, dtype=np.uint64), np.zeros(100, dtype=np.int64)).tolist())) == 100
