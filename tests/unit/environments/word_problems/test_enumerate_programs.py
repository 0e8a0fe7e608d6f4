"""Enumeration finds the shortest arithmetic that gives all answers, and writes it as a workflow that computes it."""

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tasks.environments.word_problems.enumerate_programs import Expression, Values, shortest_expressions, write_workflow
from tasks.programs.contract import HEADER
from tasks.programs.sandbox.plain_programs import is_plain

REPOSITORY = Path(__file__).parents[3]
QUESTIONS = 3  # the problem and two siblings

LEAVES = st.sampled_from([*(Expression(leaf=f"n[{i}]") for i in range(4)), *(Expression(leaf=c) for c in "12")])


@st.composite
def expressions(draw: st.DrawFn, operations: int) -> Expression:
    """Any tree of `operations` operations."""
    if operations == 0:
        return draw(LEAVES)
    left = draw(st.integers(0, operations - 1))
    parts = draw(expressions(left)), draw(expressions(operations - 1 - left))
    return Expression(draw(st.sampled_from("+-*/")), *parts)


NUMBERS = st.integers(2, 400) | st.sampled_from([0.5, 0.25, 1.5, 0.15, 12.99, 64])
QUANTITIES = st.lists(st.lists(NUMBERS, min_size=4, max_size=4), min_size=QUESTIONS, max_size=QUESTIONS)


def value_of(expression: Expression, quantities: list[float]) -> Fraction | None:
    """Exact; None where a part is no positive number of moderate size, which no word problem needs."""
    if expression.left is None or expression.right is None:
        text = expression.leaf
        return Fraction(str(quantities[int(text[2:-1])])) if text.startswith("n") else Fraction(text)
    left, right = value_of(expression.left, quantities), value_of(expression.right, quantities)
    if left is None or right is None:
        return None
    if expression.symbol == "/":
        value = left / right
    else:
        value = {"+": left + right, "-": left - right, "*": left * right}[expression.symbol]
    return value if Fraction(1, 100) <= value < 10**7 else None


def operations_of(expression: Expression) -> int:
    return len(expression.leaves) - 1


def ran(code: str, quantities: list[float]) -> Any:
    """What the workflow returns, by plain Python."""
    names: dict[str, Any] = {"numbers": lambda _: quantities}
    exec(code, names)
    return names["solve"]("")


def check_found(operations: int, expression: Expression, quantities: list[list[float]]) -> None:
    exact = [value_of(expression, q) for q in quantities]
    assume(None not in exact)
    answers = [float(value) for value in exact if value is not None]
    found = shortest_expressions(quantities, answers, operations)
    assert found
    assert {operations_of(e) for e in found} == {operations_of(found[0])}
    assert 1 <= operations_of(found[0]) <= operations
    for each in found[:3]:
        code = write_workflow(each, HEADER)
        assert is_plain(code)
        assert [ran(code, q) for q in quantities] == pytest.approx(answers, rel=1e-5)


@settings(max_examples=100)
@given(operations=st.integers(1, 3), data=st.data(), quantities=QUANTITIES)
def test_whatever_has_an_expression_is_found_in_no_more_operations(
    operations: int, data: st.DataObject, quantities: list[list[float]]
) -> None:
    check_found(operations, data.draw(expressions(operations)), quantities)


@settings(max_examples=25)
@given(expression=expressions(4), quantities=QUANTITIES)
def test_four_operations_are_met_in_the_middle(expression: Expression, quantities: list[list[float]]) -> None:
    check_found(4, expression, quantities)


def test_a_fraction_on_the_border_of_two_roundings_is_found() -> None:
    quantities = [[1, 64, 3.0, 7], [3, 64, 7.0, 7], [5, 64, 11.0, 7]]  # 1/64 = 0.015625: half of the fifth place's unit
    answers = [(a / b + 1) * c / d for a, b, c, d in quantities]
    first, *_ = shortest_expressions(quantities, answers, 4)
    assert [ran(write_workflow(first, HEADER), q) for q in quantities] == pytest.approx(answers)


def test_nothing_is_found_without_an_expression_of_the_allowed_operations() -> None:
    assert shortest_expressions([[3, 4], [5, 6]], [1234.567, 89.123], 3) == []
    quantities = [[3, 5, 7, 11], [4, 9, 2, 13], [17, 6, 8, 3]]
    answers = [(a * b + c) * d for a, b, c, d in quantities]
    assert shortest_expressions(quantities, answers, 2) == []
    assert operations_of(shortest_expressions(quantities, answers, 3)[0]) == 3
    assert shortest_expressions(quantities, answers, 5) == shortest_expressions(quantities, answers, 3)


def test_siblings_keep_right_and_wrong_apart() -> None:
    """On the problem alone 2 + 2 and 2 * 2 have the same value, and one of both would stand for the other."""
    one, all_of_them = [[2, 2, 5]], [[2, 2, 5], [3, 7, 2], [6, 4, 9]]
    answers = [float((a + b) * c) for a, b, c in all_of_them]
    right = shortest_expressions(all_of_them, answers, 2)
    assert [[ran(write_workflow(e, HEADER), q) for q in all_of_them] for e in right] == [answers] * len(right)
    alone = shortest_expressions(one, answers[:1], 2)
    assert any(ran(write_workflow(e, HEADER), all_of_them[1]) != answers[1] for e in alone)


def values_of(expression: Expression, quantities: list[list[float]]) -> Values:
    """[K], in floating point; for many expressions faster than running them."""
    if expression.left is None or expression.right is None:
        text = expression.leaf
        return np.array([float(q[int(text[2:-1])] if text.startswith("n") else text) for q in quantities])
    left, right = values_of(expression.left, quantities), values_of(expression.right, quantities)
    with np.errstate(all="ignore"):
        computed = {"+": left + right, "-": left - right, "*": left * right, "/": left / right}
    return computed[expression.symbol]


@settings(max_examples=40, deadline=None)
@given(operations=st.integers(1, 3), data=st.data(), quantities=QUANTITIES)
def test_inputs_without_an_answer_keep_right_and_wrong_apart(
    operations: int, data: st.DataObject, quantities: list[list[float]]
) -> None:
    """Of one problem's candidates one behaves as the expression that its answer was made with, whatever else does."""
    expression = data.draw(expressions(operations))
    exact = [value_of(expression, q) for q in quantities]
    assume(None not in exact)
    wanted = [float(value) for value in exact if value is not None]
    found = shortest_expressions(quantities, wanted[:1], operations, further=operations - 1)
    given_values = [values_of(e, quantities) for e in found]
    assert all(values[0] == pytest.approx(wanted[0], rel=1e-6) for values in given_values)
    assert any(np.allclose(values, wanted, rtol=1e-6, atol=0) for values in given_values)


def test_only_common_quantities_are_used_and_the_likelier_expression_comes_first() -> None:
    sum_of_two = "    a = n[0] + n[1]\n    return a\n"
    assert [write_workflow(e, "") for e in shortest_expressions([[3, 4, 9], [5, 6]], [7, 11], 2)] == [sum_of_two]
    found = shortest_expressions([[3, 4, 3, 100], [5, 6, 5, 100]], [7, 11], 1)
    assert write_workflow(found[0], "") == sum_of_two  # not n[1] + n[2], in the order of the text
    pairs = [("n[2]", "n[10]"), ("n[10]", "n[2]"), ("n[0]", "100"), ("n[0]", "n[0]")]
    order = [Expression("+", Expression(leaf=left), Expression(leaf=right)) for left, right in pairs]
    assert sorted([order[i] for i in (2, 0, 3, 1)], key=lambda e: e.strangeness) == order


ASK = """
import json, sys
from tasks.environments.word_problems.enumerate_programs import shortest_expressions, write_workflow
quantities, answers = json.loads(sys.argv[1])
print(json.dumps([write_workflow(e, "") for e in shortest_expressions(quantities, answers, 3)]))
"""


def test_every_process_finds_the_same_in_the_same_order() -> None:
    """Also where many are equally likely: (a * b) * c and a * (b * c)."""
    quantities = [[3, 5, 7, 100], [4, 9, 2, 100], [17, 6, 8, 100]]
    answers = [a * b * c / 100 for a, b, c, _ in quantities]
    here = [write_workflow(e, "") for e in shortest_expressions(quantities, answers, 3)]
    assert len(here) > 5
    command = [sys.executable, "-c", ASK, json.dumps([quantities, answers])]
    for seed in ("1", "2"):
        env = os.environ | {"PYTHONHASHSEED": seed}
        assert json.loads(subprocess.run(command, env=env, cwd=REPOSITORY, stdout=subprocess.PIPE).stdout) == here
