"""The benchmark of intervals: what is drawn has the mean that it is held against, and figures are of what is taken."""

from statistics import fmean

import pytest

from benchmarks.intervals import CASES, SIZES, Case, coverage, figures, measure, table
from tasks.statistics.intervals import WILSON_BELOW, Estimate

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_problems_are_drawn_with_the_mean_they_are_held_against(case: Case) -> None:
    values = case.drawn(20_000, 1)
    assert fmean(values) == pytest.approx(case.truth, abs=0.01)
    assert all(value * case.samples == pytest.approx(round(value * case.samples)) for value in values)
    assert case.drawn(20, 1) != case.drawn(20, 2)


def test_coverage_is_the_share_of_intervals_that_hold_the_truth() -> None:
    case = CASES[0]
    assert coverage(case, 10, 4, lambda _values, seed: Estimate(0.5, 0.5 if seed % 4 else 0.6, 0.7)) == 0.75


def test_figures_are_of_the_interval_that_is_taken_for_the_size() -> None:
    found = {(case, size): (0.9, 0.8) if size < WILSON_BELOW else (0.7, 0.6) for case in CASES for size in SIZES}
    found[CASES[0], SIZES[0]], found[CASES[0], SIZES[-1]] = (0.0, 0.2), (0.1, 0.0)
    assert figures(found) == {
        "coverage_bootstrap": pytest.approx((0.7 * 11 + 0.1) / 12, abs=1e-4),
        "coverage_wilson": pytest.approx((0.8 * 17 + 0.2) / 18, abs=1e-4),
        "lowest_bootstrap": 0.1,
        "lowest_wilson": 0.2,
    }


def test_each_case_is_measured_at_each_size() -> None:
    found = measure(2)
    assert set(found) == {(case, size) for case in CASES for size in SIZES}
    assert {number for pair in found.values() for number in pair} <= {0.0, 0.5, 1.0}
    assert table(found).row_count == len(CASES)
