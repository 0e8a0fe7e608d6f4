"""The operators `convert` and `compare`, and reading numbers."""

from datetime import date, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.programs.contract import HEADER
from tasks.programs.operators.builtin import compare
from tasks.programs.operators.unit_conversion import _DEGREES, _SIZES, convert, read_number
from tasks.programs.sandbox.sandbox import Program, Sandbox
from tasks.records import Result

CASES = [
    (3, "hours", "minutes", 180), (90, "minutes", "hours", 1.5), (1, "mile", "km", 1.609344),
    ("6", "feet", "inches", 72), (2, "Kilometers", "meters", 2000), (2.5, "kg", "g", 2500), (1, "gal", "cups", 16),
    (2, "years", "months", 24), (250, "cents", "dollars", 2.5), (3, "dozen", "items", 36),
    (1, "square foot", "square inches", None), (1, "ha", "m2", 10_000), (100, "celsius", "fahrenheit", 212),
    (-40, "Fahrenheit", "celsius", -40), (0, "celsius", "kelvin", 273.15), ("3/4", "number", "percent", 75),
    ("75%", "number", "fraction", "3/4"), (37.5, "percent", "fraction", "3/8"), (0.375, "decimal", "fraction", "3/8"),
    ("1 1/2", "number", "number", 1.5), ("1,200", "grams", "kilos", 1.2),
    ("2024-02-28", "date", "weekday", "Wednesday"), ("2024-12-31", "date", "year day", 366),
    (1, "days", "date", "0001-01-01"), (1, "hour", "metre", None), (1, "month", "day", None), (1, "parsec", "km", None),
    (1, "percent", "gram", None), ("much", "km", "m", None), ("1 2", "km", "m", None), ("3/0", "km", "m", None),
    ("9" * 500, "km", "m", None), (float("nan"), "km", "m", None), ("2024-02-30", "date", "days", None),
    (1.5, "days", "date", None), (0, "days", "date", None), (1, "hour", "date", None),
    ("2024-02-28", "date", "hour", None),
]  # fmt: skip


@pytest.mark.parametrize(("value", "source", "target", "expected"), CASES)
def test_cases(value: int | float | str, source: str, target: str, expected: int | float | str | None) -> None:
    if expected is None:
        with pytest.raises(ValueError, match=r"convert\(\)|number|[Dd]ay|literal|Invalid"):
            convert(value, source, target)
    else:
        found = convert(value, source, target)
        assert found == expected
        assert type(found) is type(expected)


def test_other_types_are_refused() -> None:
    for arguments in ((True, "km", "m"), (None, "km", "m"), (1, 2, "m"), ([1], "km", "m"), (5, "date", "weekday")):
        with pytest.raises(TypeError):
            convert(*arguments)  # type: ignore[arg-type]


SAME_KIND = [(a, b) for a, (kind, _) in _SIZES.items() for b, (other, _) in _SIZES.items() if kind == other]
SAME_KIND += [(a, b) for a in _DEGREES for b in _DEGREES]


@given(st.integers(-(10**6), 10**6), st.sampled_from(SAME_KIND))
def test_there_and_back_is_the_same_number(value: int, units: tuple[str, str]) -> None:
    source, target = units
    assert convert(convert(value, source, target), target, source) == pytest.approx(value, rel=1e-12, abs=1e-9)


@given(st.dates(), st.integers(0, 1000))
def test_days_are_counted_as_in_the_calendar(day: date, span: int) -> None:
    later = day - timedelta(days=min(span, (day - date.min).days))
    found = convert(day.isoformat(), "date", "days"), convert(later.isoformat(), "date", "days")
    assert found[0] - found[1] == (day - later).days  # type: ignore[operator]
    assert convert(found[0], "days", "date") == day.isoformat()


@given(st.fractions(min_value=-1000, max_value=1000, max_denominator=999))
def test_a_written_fraction_is_read_exactly(value: Fraction) -> None:
    assert read_number(f"{value.numerator}/{value.denominator}") == value
    assert read_number(float(value)) == Fraction(str(float(value)))


@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9))
def test_compare_orders_as_numbers_do(left: int, right: int) -> None:
    order = (left > right) - (left < right)
    close = abs(left - right) <= abs(right) / 1_000_000
    assert compare(left, right) == (0 if close else order)
    assert compare(f"{left:,}", right) == compare(left, right)
    assert compare("3/4", "75%") == compare(0.75, "3/4") == 0
    assert (compare("3/4", 0.7), compare("$2.50", 3)) == (1, -1)
    assert (compare(1.6e-19, 0), compare(1e-7, 2e-7)) == (1, -1)
    with pytest.raises(ValueError, match="no number"):
        compare("few", 1)


def test_a_workflow_may_call_them_in_both_tiers() -> None:
    code = HEADER + "    return convert(n[0], 'hours', 'minutes') * compare(n[0], 1)\n"
    with Sandbox(5.0, 256, allow_weak=False, workers=1) as sandbox:
        for text in (code, code + "\nforked = None\n"):
            assert sandbox.run([Program(text, ("A trip takes 3 hours.",))]) == [[Result(status="ok", value=180)]]
