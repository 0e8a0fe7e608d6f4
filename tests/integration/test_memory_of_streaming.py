"""Memory does not grow with the problems."""

import pytest

from benchmarks.streaming import measure

pytestmark = pytest.mark.nightly

LIMIT = 500  # MiB
ROOM = 20  # MiB by which two peaks may differ: what the allocator keeps


def test_four_times_the_problems_need_no_more_memory() -> None:
    few, many = measure(3_000), measure(12_000)
    for one, other in zip(few, many, strict=True):
        assert other.peak < min(LIMIT, one.peak + ROOM), other.stage
    assert [row.stage for row in many] == ["collect", "reward", "select"]
