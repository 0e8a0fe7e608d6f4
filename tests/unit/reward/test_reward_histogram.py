"""Laws of the histogram of rewards."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.artifacts import write_text
from tasks.layout import Layout
from tasks.reward.histogram import BINS, histogram_csv, read_histogram, reward_histogram


@given(st.lists(st.floats(-2, 3, allow_subnormal=False), min_size=1))
def test_every_reward_is_in_one_bin_that_holds_it(rewards: list[float]) -> None:
    low, high = min(0.0, *rewards), max(1.0, *rewards)
    bins = reward_histogram(rewards, low, high)
    assert len(bins) == BINS
    assert sum(bin.completions for bin in bins) == len(rewards)
    assert (bins[0].low, bins[-1].high) == (low, pytest.approx(high))
    slack = 1e-8 * (high - low)
    for bin in bins:
        inside = [r for r in rewards if bin.low - slack <= r <= bin.high + slack]
        assert bin.completions <= len(inside)


def test_a_reward_on_an_edge_is_in_the_bin_that_begins_there_whatever_the_rounding() -> None:
    bins = reward_histogram([i / BINS for i in range(BINS)], 0.0, 1.0)
    assert [bin.completions for bin in bins] == [1] * BINS
    sums = reward_histogram([0.1 + 0.1 + 0.1, 0.7 * 0.5], 0.0, 1.0)
    assert [i for i, bin in enumerate(sums) if bin.completions] == [6, 7]


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    bins = reward_histogram([0.0, 0.3, 1.7], 0.0, 1.7)
    write_text(Layout(tmp_path).reward_histogram(2), histogram_csv(bins))
    assert read_histogram(Layout(tmp_path), 2) == bins
