"""Laws of the arithmetic statements in a text."""

import operator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.environments.arithmetic_statements import NEUTRAL, right_share, statements
from tasks.environments.tagged_answer import TaggedAnswer
from tasks.environments.tags import thoughts
from tasks.environments.word_problems.worked_answers import worked_steps
from tasks.records.problems import Problem

NUMBERS = st.integers(0, 10_000)
OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "×": operator.mul, "x": operator.mul}


@given(NUMBERS, NUMBERS, st.sampled_from(sorted(OPERATIONS)), st.integers(-3, 3), st.booleans(), st.booleans())
def test_a_statement_is_right_if_its_sides_are_equal(
    first: int, second: int, sign: str, off: int, blanks: bool, turned: bool
) -> None:
    blank = " " if blanks else ""
    sides = [f"{first}{blank}{sign}{blank}{second}", str(OPERATIONS[sign](first, second) + off)]
    text = f"Step 1. So it is {f'{blank}={blank}'.join(sides[::-1] if turned else sides)} apples in all."
    assert list(statements(text).values()) == [off == 0]
    assert right_share(text) == (off == 0)


@given(st.lists(st.tuples(NUMBERS, st.booleans()), max_size=8, unique_by=lambda pair: pair[0]))
def test_the_share_is_of_distinct_statements(drawn: list[tuple[int, bool]]) -> None:
    lines = [f"{number} + 1 = {number + 1 + (not right)}" for number, right in drawn]
    expected = sum(right for _, right in drawn) / len(drawn) if drawn else NEUTRAL
    assert right_share("\n".join(lines)) == right_share("\n".join(lines * 3)) == expected


@given(NUMBERS, st.integers(1, 99), st.integers(1, 6))
def test_a_quotient_may_be_rounded_to_the_decimals_that_are_written(first: int, second: int, decimals: int) -> None:
    exact = Fraction(first, second)
    near = f"{float(exact):.{decimals}f}"
    assert right_share(f"{first} / {second} = {near}") == 1
    assert right_share(f"{first} / {second} = {float(exact) + 10**-decimals:.{decimals}f}") == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- 12 * 4 = 48", {"12*4=48": True}),  # a bullet
        ("5 + 3 = 8 - 2 = 6", {"5+3=8-2": False, "8-2=6": True}),
        ("10 / 3 = 3", {"10/3=3": False}),
        ("$1,200 + $50 = $1,250.", {"1200+50=1250": True}),
        ("(2 + 3) x 4 = 20", {"(2+3)*4=20": True}),
        ("48 / 2 = <<48/2=24>>24", {"48/2=24": True}),
        ("5 / 0 = 0", {"5/0=0": False}),
        ("20% * 50 = 10, 1/3 = 33%", {"(20/100)*50=10": True, "1/3=(33/100)": True}),
        ("-3 + 5 = 2", {"-3+5=2": True}),
        ("a - 3 = 5, x1 + 3 = 5, 12 apples * 4 = 48", {}),  # of something that is no number
        ("1 = 1, x = 48, 3 + 4 == 7, 3 + 4 >= 7", {}),
        ("3 + 4 = 7 (12)", {"3+4=7": True}),
        ("2 ** 9 = 512", {}),
    ],
)
def test_what_counts_as_a_statement(text: str, expected: dict[str, bool]) -> None:
    assert statements(text) == expected


def test_a_long_text_is_read_in_time_linear_in_its_length() -> None:
    assert right_share("1 + " * 50_000 + "1 = 2") == 0
    assert right_share("= " * 50_000) == NEUTRAL
    assert right_share("((((" * 50_000 + "1 = 1 + 0") == 1


def test_the_thoughts_are_checked_and_the_answer_is_not() -> None:
    environment = TaggedAnswer()
    demonstration = environment.written(*worked_steps(CODE, "Ann has 12 boxes of 4 pens and 3 more. How many?"))
    assert "12 * 4 = 48" in demonstration
    term, problem = environment.terms["steps"], Problem(problem_id="p", question="?", answer=51, source="test")
    assert term(problem, demonstration, []) == 1
    assert term(problem, demonstration.replace("48 + 3 = 51", "48 + 3 = 52"), []) == 0.5
    assert term(problem, "<answer>\n1 + 1 = 3\n</answer>", []) == NEUTRAL
    assert term(problem, "1 + 1 = 3\n<answer>\n3\n</answer>", []) == 0  # leaving the tags out hides nothing
    assert thoughts("a<answer>1</answer>b<answer>2</answer>c") == "a<answer>"


CODE = """\
def solve(problem):
    n = numbers(problem)
    a = n[0] * n[1]
    b = a + n[2]
    return b
"""
