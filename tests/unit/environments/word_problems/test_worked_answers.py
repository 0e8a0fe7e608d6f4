"""The worked steps of a workflow, compared with its run in the sandbox."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.environments.word_problems.enumerate_programs import Expression, write_workflow
from tasks.environments.word_problems.worked_answers import worked_steps
from tasks.programs.contract import HEADER
from tasks.programs.sandbox.sandbox import Program, Sandbox, make_sandbox
from tests.support.stage_params import SHIPPED

QUESTION = "A shop sells 12 boxes of 4.5 kg at 20% off, for $1,200. How much?"
SANDBOX = SHIPPED.sandbox


def code(*statements: str) -> str:
    return HEADER + "".join(f"    {statement}\n" for statement in statements)


@pytest.mark.parametrize(("statements", "steps", "answer"), [
    (["a = n[0] * n[1]", "return a"], ["12 * 4.5 = 54"], "54"),
    (["a = n[0] * n[1]", "b = a - 100", "return b"], ["12 * 4.5 = 54", "54 - 100 = -46"], "-46"),
    (["a = n[3] * n[2]", "return a"], ["1200 * 0.2 = 240"], "240"),
    (["a = 1 / n[0]", "b = a * n[0]", "return b"], ["1 / 12 = 0.083333", "0.083333 * 12 = 1"], "1"),
    (["return n[0]"], [], "12"),
])  # fmt: skip
def test_each_statement_is_a_step_with_its_values(statements: list[str], steps: list[str], answer: str) -> None:
    assert worked_steps(code(*statements), QUESTION) == (steps, answer)


@pytest.mark.parametrize("statements", [
    ["a = n[0] / 0", "return a"], ["a = n[9] * 2", "return a"], ["a = ask('x')", "return a"], ["a = b + 1", "return a"],
    ["a = n[0] ** n[1]", "return a"], ["a = n[0] + 1"], ["for i in n: pass"], ["return __import__('os')"],
])  # fmt: skip
def test_anything_else_is_refused_and_never_run(statements: list[str]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        worked_steps(code(*statements), QUESTION)
    with pytest.raises(ValueError, match="not one function"):
        worked_steps("x = 1\n", QUESTION)


leaves = st.sampled_from(["n[0]", "n[1]", "n[2]", "n[3]", "1", "2", "100"]).map(lambda leaf: Expression(leaf=leaf))
expressions = st.recursive(
    leaves, lambda part: st.builds(Expression, st.sampled_from("+-*/"), part, part), max_leaves=5
).filter(lambda expression: bool(expression.symbol))


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with make_sandbox(SANDBOX.model_copy(update={"allow_weak": True})) as box:
        yield box


@given(found=st.lists(expressions, min_size=1, max_size=4))
def test_the_answer_is_what_the_sandbox_finds(sandbox: Sandbox, found: list[Expression]) -> None:
    codes = [write_workflow(expression, HEADER) for expression in found]
    results = sandbox.run([Program(text, (QUESTION,)) for text in codes])
    for text, (result,) in zip(codes, results, strict=True):
        if result.status == "ok":
            assert abs(float(worked_steps(text, QUESTION)[1]) - float(result.value or 0)) < 1e-5
        else:
            with pytest.raises(ValueError, match="divides by 0"):
                worked_steps(text, QUESTION)
