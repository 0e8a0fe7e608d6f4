"""Attempts in the real sandbox, without a model."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.environments.workflow import WorkflowEnvironment
from tasks.model.rollouts.attempts import run_workflows
from tasks.params.file import load_params
from tasks.programs.sandbox.sandbox import Sandbox, make_sandbox
from tasks.records import Problem, Sibling

PARAMS = load_params(Path(__file__).parents[4] / "params.yaml")
PRODUCT = "def solve(problem):\n    n = numbers(problem)\n    return n[0] * n[1]\n"
CONSTANT = "def solve(problem):\n    return 6\n"
BROKEN = "def solve(problem):\n    return numbers(problem)[9]\n"
PROBLEM = Problem(
    problem_id="a",
    question="2 boxes of 3 pens?",
    answer=6,
    source="test",
    siblings=[Sibling(question="4 boxes of 5 pens?", answer=20)],
)
ALONE = Problem(problem_id="b", question="2 boxes of 3 pens?", answer=6, source="test")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with make_sandbox(PARAMS.sandbox) as sandbox:
        yield sandbox


def test_each_distinct_workflow_is_one_attempt_the_greedy_one_first(sandbox: Sandbox) -> None:
    counts = Counter({BROKEN: 2, PRODUCT: 3, CONSTANT: 2})
    (found,) = run_workflows(WorkflowEnvironment(), [PROBLEM], [PRODUCT], [counts], sandbox)
    assert [(a.code, a.greedy, a.samples, a.right) for a in found] == [
        (PRODUCT, True, 3, True),
        (CONSTANT, False, 2, True),
        (BROKEN, False, 2, False),
    ]
    assert [a.siblings_passed for a in found] == [True, None, None]
    assert [a.result.status for a in found] == ["ok", "ok", "error"]


def test_a_right_answer_for_the_wrong_reason_does_not_pass_the_siblings(sandbox: Sandbox) -> None:
    ((constant,),) = run_workflows(WorkflowEnvironment(), [PROBLEM], [CONSTANT], [Counter()], sandbox)
    assert (constant.right, constant.siblings_passed) == (True, False)
    ((alone,),) = run_workflows(WorkflowEnvironment(), [ALONE], [CONSTANT], [Counter()], sandbox)
    assert (alone.right, alone.siblings_passed) == (True, None)


def test_a_wrong_answer_passes_no_siblings(sandbox: Sandbox) -> None:
    wrong_here_only = "def solve(problem):\n    n = numbers(problem)\n    return 20 if n[0] == 4 else 0\n"
    ((attempt,),) = run_workflows(WorkflowEnvironment(), [PROBLEM], [wrong_here_only], [Counter()], sandbox)
    assert (attempt.right, attempt.siblings_passed) == (False, False)


def test_attempts_stay_with_their_problem(sandbox: Sandbox) -> None:
    other = ALONE.model_copy(update={"problem_id": "c", "answer": 7})
    first, second = run_workflows(
        WorkflowEnvironment(), [ALONE, other], [PRODUCT, PRODUCT], [Counter(), Counter({CONSTANT: 1})], sandbox
    )
    assert [a.right for a in first] == [True]
    assert [(a.problem_id, a.right) for a in second] == [("c", False), ("c", False)]
