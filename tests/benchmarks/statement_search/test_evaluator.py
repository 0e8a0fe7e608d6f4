"""Sources and the typed evaluator: what is computed here is what the sandbox computes."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.statement_search.confirm import needed_statements, source_of
from benchmarks.statement_search.evaluator import behaviour, evaluate
from tasks.coldstart.expression_space import STATEMENTS, Program, space_of
from tasks.programs.contract import HEADER
from tasks.programs.sandbox import sandbox as boxes
from tasks.records import Result

QUESTION = "{} boys and {} girls buy {} pens for $1.25 each in a week, {} percent off. How much is it?"


@st.composite
def programs(draw: st.DrawFn, leaves: int) -> Program:
    """Any statements over what is there, pruned ones too."""
    made: list[tuple[str, int, int]] = []
    for length in range(draw(st.integers(1, STATEMENTS))):
        operand = st.sampled_from([*range(length), *range(STATEMENTS, STATEMENTS + leaves)])
        made.append((draw(st.sampled_from("+-*/")), draw(operand), draw(operand)))
    return tuple(made)


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, Program]:
    question = QUESTION.format(*draw(st.lists(st.integers(0, 10**6), min_size=4, max_size=4)))
    return question, draw(programs(space_of("p", [question], [1]).leaves))


@given(st.lists(cases(), min_size=60, max_size=60))
@settings(max_examples=10)
def test_the_evaluator_agrees_with_the_sandbox_on_random_programs(drawn: list[tuple[str, Program]]) -> None:
    spaces = [space_of("p", [question], [1]) for question, _ in drawn]
    codes = [source_of(space, program, HEADER) for space, (_, program) in zip(spaces, drawn, strict=True)]
    with boxes.Sandbox(seconds=5.0, memory_mb=256, allow_weak=True, workers=1) as sandbox:
        ran = sandbox.run([boxes.Program(c, (question,)) for c, (question, _) in zip(codes, drawn, strict=True)])
    for space, (question, program), (result,) in zip(spaces, drawn, ran, strict=True):
        needed = needed_statements(program)
        alive = tuple(
            (s, *(needed.index(o) if o < STATEMENTS else o for o in pair)) for s, *pair in (program[i] for i in needed)
        )
        assert_same(evaluate(alive, space, question), result)  # type: ignore[arg-type]


def assert_same(value: float | None, result: Result) -> None:
    if value is None or not (abs(value) < 10**100 if type(value) is int else math.isfinite(value)):
        assert result.status == "error"
    else:
        assert (result.status, result.value, type(result.value)) == ("ok", value, type(value))


@given(cases())
def test_arrays_compute_what_typed_numbers_do(case: tuple[str, Program]) -> None:
    question, program = case
    space = space_of("p", [question], [1])
    value, array = evaluate(program, space, question), behaviour(program, space)[0]
    if value is not None and max(abs(value), 1) < 2**53 and math.isfinite(array):
        assert array == pytest.approx(float(value), rel=1e-9, abs=1e-6)


def test_dead_statements_are_not_written() -> None:
    space = space_of("p", ["3 and 4?"], [7])
    program: Program = (("*", 6, 7), ("+", 6, 7), ("-", 1, 8))
    assert source_of(space, program, HEADER) == HEADER + "    a = n[0] + n[1]\n    b = a - 1\n    return b\n"
