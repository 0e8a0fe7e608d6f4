from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from tasks.statistics.intervals import (
    WILSON_BELOW,
    Estimate,
    bootstrap_interval,
    detectable_difference,
    difference_interval,
    mean_interval,
    wilson_interval,
)

values = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@settings(deadline=None, max_examples=30)
@given(values | st.lists(st.floats(0, 1), min_size=WILSON_BELOW, max_size=WILSON_BELOW + 5))
def test_the_interval_holds_the_mean_and_stays_within_the_span(given_values: list[float]) -> None:
    estimate = mean_interval(given_values, 0, 500)
    assert -1e-12 <= estimate.low <= estimate.mean + 1e-12
    assert estimate.mean - 1e-12 <= estimate.high <= 1 + 1e-12


@settings(deadline=None, max_examples=30)
@given(values, st.data())
def test_swapping_the_sides_mirrors_the_difference(before: list[float], data: st.DataObject) -> None:
    after = data.draw(st.lists(st.floats(0, 1), min_size=len(before), max_size=len(before)))
    there = difference_interval(after, before, 3, 500)
    back = difference_interval(before, after, 3, 500)
    assert there.mean == pytest.approx(-back.mean)
    assert there.low == pytest.approx(-back.high, abs=1e-6)
    assert there.high == pytest.approx(-back.low, abs=1e-6)


def coverage(size: int, sets: int, interval: Callable[[Sequence[float], int], Estimate]) -> float:
    """Share of sets of problems of any difficulty, each sampled 20 times, whose interval contains the mean, a half."""
    found = []
    for seed in range(sets):
        rng = np.random.default_rng(seed)
        estimate = interval((rng.binomial(20, rng.beta(1, 1, size)) / 20).tolist(), seed)
        found.append(estimate.low <= 0.5 <= estimate.high)
    return fmean(found)


def test_the_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    assert 0.93 <= coverage(120, 600, lambda values, seed: bootstrap_interval(values, seed, 300)) <= 0.97
    assert 0.93 <= coverage(15, 3000, lambda values, _: wilson_interval(values)) <= 0.97


@settings(deadline=None, max_examples=200)
@given(st.integers(1, WILSON_BELOW - 1), st.data())
def test_of_flips_it_is_wilsons_own(count: int, data: st.DataObject) -> None:
    """All right or all wrong; and else but for one flip in n, and Student's quantile, which is wider."""
    right = data.draw(st.integers(0, count))
    estimate = mean_interval([1.0] * right + [0.0] * (count - right), 0, 100)
    ends = binomtest(right, count).proportion_ci(0.95, method="wilson")
    assert estimate.mean == right / count
    assert estimate.low <= ends.low + 1e-12
    assert estimate.high >= ends.high - 1e-12
    if count > 60:
        assert (estimate.low, estimate.high) == pytest.approx((ends.low, ends.high), abs=0.01)


def test_many_samples_of_a_problem_are_worth_more_flips_than_one() -> None:
    alike = wilson_interval([0.4, 0.5, 0.6] * 8)
    assert alike.high - alike.low < 0.1 < wilson_interval([0.0, 1.0] * 12).low


def test_a_small_set_has_wilsons_interval_and_a_large_one_the_bootstrap() -> None:
    values = [0.0, 1.0] * (WILSON_BELOW // 2)
    assert mean_interval(values[1:], 7, 300) == wilson_interval(values[1:])
    assert mean_interval(values, 7, 300) == bootstrap_interval(values, 7, 300)


def test_pairing_narrows_the_interval_of_a_difference() -> None:
    rng = np.random.default_rng(1)
    before = rng.uniform(0, 0.9, size=80)
    after = before + 0.1  # every problem better by as much, though problems differ widely
    estimate = difference_interval(after.tolist(), (before - rng.normal(0, 0.01, 80)).clip(0).tolist(), 0, 500)
    assert 0.09 < estimate.low < estimate.high < 0.11


def test_the_same_seed_gives_the_same_interval_and_another_a_different_one() -> None:
    data = np.random.default_rng(2).uniform(size=WILSON_BELOW).tolist()
    assert mean_interval(data, 7, 300) == mean_interval(data, 7, 300)
    assert mean_interval(data, 7, 300) != mean_interval(data, 8, 300)


def test_none_of_200_solved_is_not_known_to_be_zero() -> None:
    estimate = mean_interval([0.0] * 200, 0, 500)
    assert estimate.low == 0.0
    assert estimate.high == pytest.approx(1 - 0.025 ** (1 / 200))  # Clopper and Pearson by hand


def test_one_problem_is_no_proof_of_a_difference() -> None:
    assert difference_interval([1.0], [0.0], 0, 500).low < 0


def test_equal_sides_differ_by_exactly_nothing() -> None:
    assert difference_interval([0.0, 1.0, 0.5], [0.0, 1.0, 0.5], 0, 500) == (0, 0, 0)


def test_sides_of_other_lengths_and_no_problems_are_refused() -> None:
    with pytest.raises(ValueError, match="argument 2"):
        difference_interval([1.0], [1.0, 0.0], 0, 500)
    with pytest.raises(ValueError, match="no problems"):
        mean_interval([], 0, 500)


def test_a_detectable_difference_is_seen_in_four_of_five_samples() -> None:
    rng = np.random.default_rng(0)
    before = rng.random(200) < 0.5
    after = before ^ (rng.random(200) < 0.2)
    least = detectable_difference(after.astype(float), before.astype(float))
    spread = np.std(after.astype(float) - before, ddof=1)
    drawn = rng.normal(least, spread, size=(4000, 200))
    seen = drawn.mean(1) - 1.96 * drawn.std(1, ddof=1) / np.sqrt(200) > 0
    assert seen.mean() == pytest.approx(0.8, abs=0.02)
    ninefold = detectable_difference(np.tile(after.astype(float), 9), np.tile(before.astype(float), 9))
    assert ninefold == pytest.approx(least / 3, rel=0.01)
    assert detectable_difference([1.0] * 100, [1.0] * 100) > 0
