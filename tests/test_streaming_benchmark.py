"""Memory does not grow with the problems; the benchmark does the full million."""

import pytest

from benchmarks.streaming import figures, measure, table

ROOM = 20  # MiB by which two peaks may differ: what the allocator keeps


@pytest.mark.slow
def test_four_times_the_problems_need_no_more_memory() -> None:
    few, many = measure(3_000), measure(12_000)
    for one, other in zip(few, many, strict=True):
        assert other.peak < min(500, one.peak + ROOM), other.stage
    assert [row.stage for row in many] == ["collect", "reward", "select"]
    assert figures(many)["problems"] == 12_000
    assert table([("streamed", row) for row in many]).row_count == 3
