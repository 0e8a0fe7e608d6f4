"""The evaluator of expressions: a table of pairs, laws of equality, and the child process that compares."""

import json
import os
from fractions import Fraction
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.evaluators import expression
from tasks.evaluators.expression_equality import ExpressionValue, are_equal
from tasks.evaluators.expression_reader import read

PAIRS = [
    json.loads(line) for line in (Path(__file__).parent / "expression_pairs.jsonl").read_text("utf-8").splitlines()
]
"""Key, written answer and whether they are equal, of all kinds of answers; written by hand."""

read_once = cache(read)


def equal(one: str, other: str) -> bool:
    return are_equal(read_once(one), read_once(other))


def test_no_wrong_answer_is_taken_and_nearly_no_right_one_refused() -> None:
    verdicts = [(pair["key"], pair["written"], pair["equal"], equal(pair["key"], pair["written"])) for pair in PAIRS]
    assert len(verdicts) >= 500
    assert [verdict for verdict in verdicts if verdict[3] and not verdict[2]] == []
    assert sum(found == expected for *_, expected, found in verdicts) >= 0.97 * len(verdicts)


def test_equality_is_symmetric_and_every_key_with_a_value_equals_itself() -> None:
    for pair in PAIRS:
        key, written = pair["key"], pair["written"]
        assert equal(written, key) == equal(key, written), (key, written)
        assert equal(key, key) or key in ("1/0", r"\frac{0}{0}"), key


APART = r"""
0; 1; -1; 2; 12; 21; 1/2; 1/3; 1/4; -1/2; 0.05; 0.051; 5.1; 1e-19; 1.1e-19; 1e-7; 1e19; 1e20; 10^{400}; 10^{-400}; 7!
8!; 1/70!; 1/71!; 2^{-99}; 2^{-98}; \sqrt{2}; \sqrt{3}; \sqrt[3]{2}; 3\sqrt{2}; \pi; 2\pi; \frac{\pi}{2}; e; e^2; \ln 2
\log_2 3; \sin 1; \cos 1; 1+\sqrt{2}; 1-\sqrt{2}; i; -i; 1+2i; 2+i; \infty; -\infty; 11_2; 11_3; 3\text{ or more}
x; y; x^2; 2x; xy; x+y; x-y; |x|; x_1; f(x); x>3; x\ge 3; x<3; x\ne 3; y>3; x+y>3; x+y=3; x-y=3; x^2+y^2=9; x=13; y=13
(1,2); [1,2]; [1,2); (2,1); \{1,2\}; 2,3; 2,3,3; (1,2),(3,4); (1,4),(3,2); 1:2:3; 1:2:4; 1:30; 1:50; \mathbb{R}
\emptyset; \begin{pmatrix}1\\2\end{pmatrix}; \begin{pmatrix}1&2\end{pmatrix}; yes; no; even; odd; Evelyn; C; D
4\text{ cm}; 4\text{ m}; 4\text{ cm}^2; \$14; €14; 33\%; 34\%; 35^\circ; 2,4,8,\ldots; 2,4,6,\ldots; \frac{a}{bc}; a/bc
"""


def test_different_values_are_never_equal() -> None:
    values = [value.strip() for value in APART.replace("\n", ";").split(";") if value.strip()]
    assert len(values) == len(set(values)) > 100
    assert [pair for pair in combinations(values, 2) if equal(*pair)] == []


def written(number: Fraction) -> list[str]:
    """A positive fraction in several notations."""
    top, bottom = number.numerator, number.denominator
    whole, rest = divmod(top, bottom)
    mixed = [f"{whole} {rest}/{bottom}", rf"{whole}\frac{{{rest}}}{{{bottom}}}"] if whole and rest else []
    return [
        f"{top}/{bottom}",
        rf"$\dfrac{{{top}}}{{{bottom}}}$",
        rf"\left(\tfrac{{{10 * top}}}{{{10 * bottom}}}\right)",
        f"x = {top}/{bottom}",
        rf"\frac{{{top}}}{{{bottom}}}\text{{ km}}",
        f"{top}*{bottom}**(-1)",
        f"({top}e-3)/({bottom}e-3)",
        rf"\frac{{{100 * top}}}{{{bottom}}}\%",
        *mixed,
    ]


@settings(max_examples=15, deadline=None)
@given(st.fractions(min_value=Fraction(1, 50), max_value=60, max_denominator=50), st.integers(1, 3))
def test_a_number_equals_itself_in_every_notation_and_no_number_near_it(number: Fraction, step: int) -> None:
    near = number + Fraction(step, 10**7)
    values = list(map(read, written(number)))
    for value in values:
        assert are_equal(value, values[0])
        assert are_equal(read(f"{float(number)!r}"), values[0])
        assert not are_equal(value, read(f"{near.numerator}/{near.denominator}"))
        assert not are_equal(value, read(f"{float(near):.9f}"))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(-9, 9), min_size=2, max_size=4, unique=True))
def test_only_lists_and_sets_are_without_order(numbers: list[int]) -> None:
    def joined(values: list[int]) -> str:
        return ", ".join(map(str, values))

    turned = numbers[1:] + numbers[:1]
    assert are_equal(read(joined(numbers)), read(joined(turned)))
    assert are_equal(read(rf"\{{{joined(numbers)}\}}"), read(joined(turned)))
    assert not are_equal(read(f"({joined(numbers)})"), read(f"({joined(turned)})"))
    assert not are_equal(read(joined(numbers)), read(joined(numbers[:-1])))


@pytest.mark.parametrize(
    "piece",
    [
        "(",
        "{",
        "[",
        "|",
        r"\frac",
        "^",
        "x(",
        r"\sqrt",
        "1,",
        "a=",
        r"\left(",
        "1/",
        "-",
        "5 ",
        "ab",
        r"\a",
        "0.3",
        "{a}",
        "a(",
    ],
)
def test_a_long_text_is_read_as_something_that_is_no_number(piece: str) -> None:
    value: ExpressionValue = read(piece * (expression.LONGEST // len(piece)))
    assert not are_equal(value, read("5"))


def test_a_comparison_that_never_ends_is_wrong_and_the_next_one_is_made() -> None:
    comparer = expression.Comparer(seconds=1)
    try:
        assert comparer.compare("1/3", r"\frac{1}{3}")
        assert not comparer.compare("9**9**9**9", "3")
        assert comparer.compare("x(x+1)", "x^2+x")
    finally:
        comparer.close()


def test_no_text_is_evaluated_as_a_program(tmp_path: Path) -> None:
    target = tmp_path / "written"
    for code in (f"open({str(target)!r}, 'w')", f"__import__('pathlib').Path({str(target)!r}).touch()"):
        for text in (
            code,
            f"$${code}$$",
            rf"\text{{{code}}}",
            f"[[{code}]]",
            f"sqrt({code})",
            rf"\frac{{{code}}}{{2}}",
        ):
            assert not expression.are_equal(text, "5")
    assert not target.exists()


def test_a_fork_has_a_child_of_its_own() -> None:
    """It neither reads the verdicts of its parent nor ends the parent's child."""
    comparer = expression.Comparer()
    try:
        assert comparer.compare("1/3", r"\frac{1}{3}")
        first = comparer._child
        pid = os.fork()
        if pid == 0:
            right = False
            try:
                right = comparer.compare("1/4", r"\frac{1}{4}") and comparer._child is not first
                comparer.close()
            finally:
                os._exit(0 if right else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert comparer.compare("1/5", r"\frac{1}{5}")
        assert comparer._child is first
    finally:
        comparer.close()
