"""Sums that come bit by bit are, digit for digit, those over all numbers at once."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.core import exact_sums as sums
from tasks.core.exact_sums import Column, ExactSum

NUMBERS = st.lists(st.floats(-1e12, 1e12, allow_subnormal=True) | st.sampled_from([0.1, 1 / 3, 1e-300, -1e-300]))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is folded and laid aside after thousands of numbers is so after two."""
    monkeypatch.setattr(sums, "CHUNK", 2)
    monkeypatch.setattr(sums, "IN_MEMORY", 32)


def deviation(numbers: Sequence[float]) -> float | None:
    """The formula over all at once."""
    mean = math.fsum(numbers) / len(numbers) if numbers else None
    return None if mean is None else math.sqrt(math.fsum((n - mean) ** 2 for n in numbers) / len(numbers))


@given(parts=st.lists(NUMBERS))
def test_however_it_comes_a_sum_is_exact(parts: list[list[float]]) -> None:
    total = ExactSum()
    with Column() as column:
        for part in parts:
            total.add(part)
            column.add(part)
        numbers = [number for part in parts for number in part]
        assert total.value == math.fsum(numbers)
        assert column.count == len(numbers)
        assert column.mean == (math.fsum(numbers) / len(numbers) if numbers else None)
        assert column.deviation == deviation(numbers)
