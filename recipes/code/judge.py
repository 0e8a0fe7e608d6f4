"""The judge of code: its hidden and its shown tests, run apart in the sandbox, give a verdict in place of the code.

And the solutions that problems bring, confirmed by their shown tests.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from recipes.code.evaluator import UNIT_TESTS
from recipes.code.harness.outcomes import Outcome, UnitTests, make_test_sandbox, run_unit_tests
from tasks.environments.protocol import Judge
from tasks.params.sections import SandboxParams
from tasks.programs.code_blocks import code_of
from tasks.programs.sandbox.sandbox import MAX_SOURCE, SANDBOX_DIED, Sandbox
from tasks.programs.workflow_files import solution_record
from tasks.records.problems import Problem
from tasks.records.programs import CheckVerdict, Result
from tasks.records.search import Workflow

NONE = Outcome(0, 0)
"""Where there are no tests."""


@contextmanager
def make_judge(params: SandboxParams) -> Iterator[Judge]:
    """The judge; its sandbox starts with the first code."""
    with ExitStack() as stack:
        yield _TestJudge(params, stack)


class _TestJudge:
    def __init__(self, params: SandboxParams, stack: ExitStack) -> None:
        self._params, self._stack = params, stack
        self._sandbox: Sandbox | None = None

    def __call__(self, asked: Sequence[tuple[Problem, Result]]) -> list[Result]:
        """Verdicts on code; equal pairs of code and tests are run once. Other answers stay as they are."""
        jobs: dict[tuple[Any, UnitTests], Outcome | None] = {}
        for problem, result in asked:
            if problem.evaluator == UNIT_TESTS and _is_code(result.value):
                jobs.update(dict.fromkeys((result.value, tests) for tests in _tests_of(problem) if tests.texts))
        if jobs:
            self._sandbox = self._sandbox or self._stack.enter_context(make_test_sandbox(self._params))
            jobs.update(zip(jobs, run_unit_tests(self._sandbox, list(jobs)), strict=True))
        return [
            _verdict(result.value, [jobs.get((result.value, tests), NONE) for tests in _tests_of(problem)])
            if problem.evaluator == UNIT_TESTS
            else result
            for problem, result in asked
        ]


def _tests_of(problem: Problem) -> list[UnitTests]:
    """The hidden and the shown tests."""
    answer: Any = problem.answer
    return [UnitTests.of(answer, "hidden"), UnitTests.of(answer, "shown")]


def _is_code(value: object) -> bool:
    return isinstance(value, str) and len(value.encode("utf-8", "replace")) <= MAX_SOURCE


def _verdict(value: object, outcomes: Sequence[Outcome | None]) -> Result:
    if not _is_code(value):
        return Result(status="error", error=f"returned no code of at most {MAX_SOURCE} bytes")
    hidden, shown = outcomes
    if hidden is None or shown is None:
        return Result(status="failed", error=SANDBOX_DIED)
    verdict = CheckVerdict(
        hidden_passed=hidden.passed,
        hidden=hidden.total,
        shown_passed=shown.passed,
        shown=shown.total,
        ending=hidden.ending or shown.ending,
    )
    return Result(status="ok", value=verdict)


def known_solutions(problems: Sequence[Problem], sandbox: SandboxParams) -> dict[str, Workflow | None]:
    """The solution of each problem that brings one; None if it fails a shown test in the sandbox."""
    tested = [(p, p.answer) for p in problems if p.evaluator == UNIT_TESTS and isinstance(p.answer, dict)]
    coded = [
        (problem, answer, code_of(str(answer["solution"]), str(answer["entry_point"])))
        for problem, answer in tested
        if answer["solution"]
    ]
    if not coded:
        return {}
    with make_test_sandbox(sandbox) as box:
        outcomes = run_unit_tests(box, [(code, UnitTests.of(answer, "shown")) for _, answer, code in coded])
    solutions: dict[str, Workflow | None] = {}
    for (problem, _, code), shown in zip(coded, outcomes, strict=True):
        solutions[problem.problem_id] = None
        if shown is not None and shown.passed == shown.total:
            verdict = CheckVerdict(hidden_passed=0, hidden=0, shown_passed=shown.passed, shown=shown.total)
            solutions[problem.problem_id] = solution_record(problem, code, 0, [Result(status="ok", value=verdict)])
    return solutions
