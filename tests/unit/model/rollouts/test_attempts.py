"""Attempts in the real sandbox, without a model."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tasks.environments.workflow import WorkflowEnvironment
from tasks.model.rollouts.attempts import run_workflows
from tasks.programs.sandbox.sandbox import Sandbox, make_sandbox
from tasks.records.problems import Problem, Sibling
from tests.support.stage_params import SHIPPED

PRODUCT = "def solve(problem):\n    n = numbers(problem)\n    return n[0] * n[1]\n"
CONSTANT = "def solve(problem):\n    return 6\n"
WRONG_HERE_ONLY = "def solve(problem):\n    n = numbers(problem)\n    return 20 if n[0] == 4 else 0\n"
BROKEN = "def solve(problem):\n    return numbers(problem)[9]\n"
ALONE = Problem(problem_id="b", question="2 boxes of 3 pens?", answer=6, source="test")
SIBLINGS = [Sibling(question="4 boxes of 5 pens?", answer=20)]
PROBLEM = ALONE.model_copy(update={"problem_id": "a", "siblings": SIBLINGS})


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with make_sandbox(SHIPPED.sandbox) as sandbox:
        yield sandbox


def test_each_distinct_workflow_is_one_attempt_the_greedy_one_first(sandbox: Sandbox) -> None:
    counts = Counter({BROKEN: 2, PRODUCT: 3, CONSTANT: 2})
    (found,) = run_workflows(WorkflowEnvironment(), [PROBLEM], [PRODUCT], [counts], sandbox)
    attempts = [(PRODUCT, True, 3, True), (CONSTANT, False, 2, True), (BROKEN, False, 2, False)]
    assert [(a.code, a.greedy, a.samples, a.right) for a in found] == attempts
    assert [a.siblings_passed for a in found] == [True, None, None]
    assert [a.result.status for a in found] == ["ok", "ok", "error"]


@pytest.mark.parametrize(
    ("problem", "code", "right", "passed"),
    [(PROBLEM, CONSTANT, True, False), (ALONE, CONSTANT, True, None), (PROBLEM, WRONG_HERE_ONLY, False, False)],
)
def test_siblings_pass_only_with_the_answer_right_for_the_right_reason(
    problem: Problem, code: str, right: bool, passed: bool | None, sandbox: Sandbox
) -> None:
    ((attempt,),) = run_workflows(WorkflowEnvironment(), [problem], [code], [Counter()], sandbox)
    assert (attempt.right, attempt.siblings_passed) == (right, passed)
