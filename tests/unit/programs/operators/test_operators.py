"""The built-in operators: what they read; no input makes them slow, infinite or wrong in type."""

import ast
import contextlib
import math
import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.programs.operators.builtin import (
    MAX_DIGITS,
    MAX_EXPRESSION,
    MAX_TEXT,
    OPERATORS,
    calculate,
    compare,
    majority,
    numbers,
    read_number,
)
from tasks.programs.operators.model_calls import MODEL_OPERATORS

READINGS = {
    "": [], "no quantity here": [], "12": [12], "1,200 sheep": [1200], "lists like 1,2 and 12,3456": [1, 2, 12, 3456],
    "3.5 or .5": [3.5, 0.5], "It costs $15.": [15], "$1,234.56": [1234.56], "20% of 50": [0.2, 50],
    "20 percent, twenty percent, 12.5 %": [0.2, 0.2, 0.125], "3/4 of a mile": [0.75], "1 1/2 cups, 2½ cups": [1.5, 2.5],
    "on 5/8/2020": [5, 8, 2020], "1/0": [], "two, Three and TWELVE": [2, 3, 12],
    "thirteen, twenty, twenty-five, ninety nine": [13, 20, 25, 99],
    "a hundred, two hundred, three hundred and forty-two": [100, 200, 342],
    "5 million, two thousand, nine hundred ninety-nine thousand": [5_000_000, 2000, 999_000],
    "one of them, someone, none, a pen": [], "twenty-one, one hundred and one": [21, 101], "half of it": [0.5],
    "two and a half hours, one and a half": [2.5, 1.5],
    "two thirds, one-half, three quarters, a quarter of, a third of": [2 / 3, 0.5, 0.75, 0.25, 1 / 3],
    "the third time": [], "twice, double, doubled, triple, thrice": [2, 2, 2, 3, 3],
    "a dozen eggs, two dozen": [12, 2, 12], "A4 paper, B12, x2": [],
    "5kg at 10am, 2-year-old, two-year-old": [5, 10, 2, 2], "the 3rd and the 21st": [],
    "from 5-10, -5 degrees": [5, 10, 5], "1.2.3": [1.2], "9" * 31: [],
    "Tom has 3 pens and gives half to 2 friends.": [3, 0.5, 2],
}  # fmt: skip

CALCULATIONS = {
    "2 * (3 + 4)": 14, " 7 // 2 ": 3, "7 % 4": 3, "7 / 2": 3.5, "2 ** 10": 1024, "2 ** -1": 0.5, "-3 - -2": -1,
    "+1.5e3": 1500.0,
}  # fmt: skip


NOT_ARITHMETIC = [
    "", "x", "True", "'a'", "1 if 1 else 2", "__import__('os')", "(1).real", "[1][0]", "1j", "1 < 2", "9 ** 9 ** 9",
    "2 ** 100000", "(-8) ** 0.5", "1e308 * 10", "1e999", "(" * 300, "1+" * 249, "1 << 2", "\0", "lambda: 1", "9" * 501,
]  # fmt: skip


@pytest.mark.parametrize("text", READINGS)
def test_numbers_reads(text: str) -> None:
    values = numbers(text)
    assert values == pytest.approx(READINGS[text])
    assert [type(v) for v in values] == [type(v) for v in READINGS[text]]


@given(st.lists(st.integers(0, 10**9), max_size=8))
def test_numbers_returns_the_integers_of_a_text(values: list[int]) -> None:
    assert numbers(" and then ".join(map(str, values))) == values
    assert numbers("; ".join(f"${value:,}" for value in values)) == values


@given(st.text(alphabet="0123456789,./% -$½abcdehilnortuvwxy", max_size=300) | st.text(max_size=200))
def test_numbers_gives_finite_nonnegative_plain_numbers(text: str) -> None:
    for value in numbers(text):
        assert type(value) in (int, float)
        assert math.isfinite(value)
        assert value >= 0


def test_numbers_is_bounded_and_reads_text_only() -> None:
    for piece in ("1 ", "9", "1,", "1,234", "one ", "hundred and ", "1/", " ", "twenty-", "two and a "):
        numbers((piece * MAX_TEXT)[:MAX_TEXT])  # quadratic time would hang here
        with pytest.raises(ValueError, match="at most"):
            numbers((piece * (MAX_TEXT + 1))[: MAX_TEXT + 1])
    with pytest.raises(TypeError, match="not int"):
        numbers(12)  # type: ignore[arg-type]


@pytest.mark.parametrize("expression", CALCULATIONS)
def test_calculate(expression: str) -> None:
    value = calculate(expression)
    assert value == CALCULATIONS[expression]
    assert type(value) is type(CALCULATIONS[expression])


@pytest.mark.parametrize("expression", NOT_ARITHMETIC)
def test_calculate_refuses(expression: str) -> None:
    with pytest.raises(ValueError, match=r"calculate\(\)"):
        calculate(expression)


LEAVES = st.integers(0, 999).map(str) | st.integers(0, 9999).map(lambda hundredths: repr(hundredths / 100))
SIGNS = st.sampled_from(["+", "-", "*", "/", "//", "%"])


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(inner, SIGNS, inner).map(lambda t: f"({' '.join(t)})") | inner.map(lambda e: f"(-{e})")


@given(st.recursive(LEAVES, larger, max_leaves=12))
@settings(max_examples=200)
def test_calculate_is_what_python_makes_of_it(expression: str) -> None:
    if len(expression) > MAX_EXPRESSION:
        return
    try:
        expected = eval(compile(ast.parse(expression, mode="eval"), "<test>", "eval"), {})
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            calculate(expression)
        return
    assert calculate(expression) == expected


@given(st.text(max_size=80))
def test_calculate_raises_nothing_but_arithmetic_errors(text: str) -> None:
    with contextlib.suppress(ValueError, ZeroDivisionError, OverflowError):
        assert type(calculate(text)) in (int, float)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_majority_is_the_first_of_the_most_frequent(answers: list[int]) -> None:
    most = max(answers.count(answer) for answer in answers)
    assert majority(answers) == majority(iter(answers)) == next(a for a in answers if answers.count(a) == most)
    assert majority([f"answer {answer}" for answer in answers]) == f"answer {majority(answers)}"
    with pytest.raises(ValueError, match="at least one"):
        majority([])


@given(st.fractions(min_value=-1000, max_value=1000, max_denominator=999))
def test_a_written_fraction_is_read_exactly(value: Fraction) -> None:
    assert read_number(f"{value.numerator}/{value.denominator}") == value
    assert read_number(float(value)) == Fraction(str(float(value)))
    assert read_number(f"{abs(value.numerator)}%") == Fraction(abs(value.numerator), 100)


@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9))
def test_compare_orders_as_numbers_do(left: int, right: int) -> None:
    order = (left > right) - (left < right)
    close = abs(left - right) <= abs(right) / 1_000_000
    assert compare(left, right) == (0 if close else order)
    assert compare(f"{left:,}", right) == compare(left, right)
    assert compare("3/4", "75%") == compare(0.75, "3/4") == 0
    assert (compare("3/4", 0.7), compare("$2.50", 3), compare("1 1/2", 1.5)) == (1, -1, 0)
    assert (compare(1.6e-19, 0), compare(1e-7, 2e-7)) == (1, -1)


@pytest.mark.parametrize("text", ["few", "1 2", "3/0", "", "9" * (MAX_DIGITS + 1), float("nan"), float("inf")])
def test_compare_refuses_what_is_no_number(text: str | float) -> None:
    with pytest.raises(ValueError, match=r"number|literal"):
        compare(text, 1)
    for other in (True, None, [1]):
        with pytest.raises(TypeError, match="a number or a text is needed"):
            compare(1, other)  # type: ignore[arg-type]


def test_every_operator_says_what_it_does() -> None:
    for name, function in OPERATORS.items():
        assert function.__name__ == name
        assert function.__doc__
        assert 20 <= len(function.__doc__.partition("\n")[0]) <= 120


def test_the_docs_have_a_counterpart_of_each_of_aflows_operators_or_say_that_there_is_none() -> None:
    page = (Path(__file__).parents[4] / "docs" / "operators.md").read_text()
    rows = dict(re.findall(r"^\| `([A-Z]\w+)` \| (.*) \|$", page, re.MULTILINE))
    assert [*rows] == [
        *("Custom", "AnswerGenerate", "CustomCodeGenerate", "Programmer", "ScEnsemble"),
        *("Test", "Review", "Revise", "Format", "MdEnsemble"),
    ]
    assert [name for name, ours in rows.items() if ours.startswith("none: ")] == ["Format", "MdEnsemble"]
    known = {*MODEL_OPERATORS, *OPERATORS, "run", "test"}
    assert {name for ours in rows.values() for name in re.findall(r"(\w+)\(", ours)} <= known
