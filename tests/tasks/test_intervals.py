import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.intervals import difference_interval, mean_interval

values = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@settings(deadline=None, max_examples=30)
@given(values)
def test_the_interval_holds_the_mean_and_stays_within_the_span(given_values: list[float]) -> None:
    estimate = mean_interval(given_values, 500, 0.95, 0)
    assert -1e-12 <= estimate.low <= estimate.mean + 1e-12
    assert estimate.mean - 1e-12 <= estimate.high <= 1 + 1e-12


@settings(deadline=None, max_examples=30)
@given(values, st.data())
def test_swapping_the_sides_mirrors_the_difference(before: list[float], data: st.DataObject) -> None:
    after = data.draw(st.lists(st.floats(0, 1), min_size=len(before), max_size=len(before)))
    there = difference_interval(after, before, 500, 0.95, 3)
    back = difference_interval(before, after, 500, 0.95, 3)
    assert there.mean == pytest.approx(-back.mean)
    assert there.low == pytest.approx(-back.high, abs=1e-6)
    assert there.high == pytest.approx(-back.low, abs=1e-6)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(300):
        chances = rng.beta(1, 1, size=60)  # problems differ in difficulty …
        shares = rng.binomial(20, chances) / 20  # … and each is sampled 20 times
        estimate = mean_interval(shares.tolist(), 400, 0.95, trial)
        covered += estimate.low <= 0.5 <= estimate.high
    assert 0.90 <= covered / 300 <= 0.98


def test_pairing_narrows_the_interval_of_a_difference() -> None:
    rng = np.random.default_rng(1)
    before = rng.uniform(0, 0.9, size=80)
    after = before + 0.1  # every problem better by as much, though problems differ widely
    estimate = difference_interval(after.tolist(), (before - rng.normal(0, 0.01, 80)).clip(0).tolist(), 500, 0.95, 0)
    assert 0.09 < estimate.low < estimate.high < 0.11


def test_the_same_seed_gives_the_same_interval_and_another_a_different_one() -> None:
    data = np.random.default_rng(2).uniform(size=40).tolist()
    assert mean_interval(data, 300, 0.95, 7) == mean_interval(data, 300, 0.95, 7)
    assert mean_interval(data, 300, 0.95, 7) != mean_interval(data, 300, 0.95, 8)


def test_none_of_200_solved_is_not_known_to_be_zero() -> None:
    estimate = mean_interval([0.0] * 200, 500, 0.95, 0)
    assert estimate.low == 0.0
    assert estimate.high == pytest.approx(1 - 0.025 ** (1 / 200))  # Clopper and Pearson by hand


def test_one_problem_is_no_proof_of_a_difference() -> None:
    assert difference_interval([1.0], [0.0], 500, 0.95, 0).low < 0


def test_equal_sides_differ_by_exactly_nothing() -> None:
    assert difference_interval([0.0, 1.0, 0.5], [0.0, 1.0, 0.5], 500, 0.95, 0) == (0, 0, 0)


def test_sides_of_other_lengths_and_no_problems_are_refused() -> None:
    with pytest.raises(ValueError, match="argument 2"):
        difference_interval([1.0], [1.0, 0.0], 500, 0.95, 0)
    with pytest.raises(ValueError, match="no problems"):
        mean_interval([], 500, 0.95, 0)
