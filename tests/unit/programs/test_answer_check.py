"""The host's verdict: exact types, a small relative tolerance for rounded values, nothing else."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.programs.answer_check import is_right
from tasks.records.programs import Result


class AlwaysEqual(float):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = float.__hash__


def result(value: object, status: str = "ok") -> Result:
    return Result.model_construct(status=status, value=value, error=None)


RIGHT = [72, 72.0, 72 + 1e-11, "72", " 72 ", "72.0", "+72", "72.000"]
WRONG = [
    71, 72.001, 72 + 5e-6, "72 pens", "$72", "7 2", "", "nan", "inf", "1e2", "٧٢", None, True, math.nan, math.inf, [72],
    AlwaysEqual(72), 10**400, -(10**400), "9" * 301,
]  # fmt: skip


def test_right_values() -> None:
    for value in RIGHT:
        assert is_right(result(value), 72), value
        assert is_right(result(value), 72.0), value
    assert is_right(result("1,200.50"), 1200.5)


@pytest.mark.parametrize("value", WRONG, ids=lambda value: repr(value)[:20])
def test_wrong_values(value: object) -> None:
    assert not is_right(result(value), 72)


def test_true_is_not_one_nan_is_not_nan_and_only_an_ok_result_is_right() -> None:
    for value, answer in ((True, 1), (False, 0), (math.nan, math.nan), ("1,20", 120)):
        assert not is_right(result(value), answer)
    for status in ("error", "timeout", "memory", "refused", "killed"):
        assert not is_right(result(72, status), 72)


@given(st.integers(-(10**9), 10**9), st.integers(-30, 12), st.floats(-1, 1))
def test_tolerance_is_relative(number: int, power: int, nudge: float) -> None:
    answer = (7 * number + 1) / 7 * 10.0**power  # more digits than are compared exactly
    width = 1e-6 * abs(answer)
    assert is_right(result(answer + 0.9 * nudge * width), answer)
    assert not is_right(result(answer + math.copysign(1.1 + abs(nudge), nudge) * width), answer)
    assert not is_right(result(0), answer)
    assert not is_right(result(answer), 0)


@given(st.integers(-(10**10), 10**10), st.integers(-25, 3), st.integers(1, 9))
def test_short_decimals_are_compared_exactly(number: int, power: int, step: int) -> None:
    assert is_right(result(float(f"{number}e{power}")), float(f"{number}e{power}"))
    assert is_right(result(f"{number}e{power}"), float(f"{number}e{power}"))
    assert not is_right(result(float(f"{number + step}e{power}")), float(f"{number}e{power}"))
