"""Solutions that problems of code bring, confirmed by their shown tests."""

from collections.abc import Sequence

from recipes.code.evaluator import UNIT_TESTS
from recipes.code.harness.outcomes import Outcome, UnitTests, make_test_sandbox, run_unit_tests
from tasks.params.sections import SandboxParams
from tasks.programs.code_blocks import code_of
from tasks.programs.workflow_files import solution_record
from tasks.records.problems import Problem
from tasks.records.programs import CheckVerdict, Result
from tasks.records.search import Workflow


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
    return {
        problem.problem_id: solution_record(problem, code, 0, [Result(status="ok", value=_verdict(outcome))])
        if outcome is not None and outcome.passed == outcome.total
        else None
        for (problem, _, code), outcome in zip(coded, outcomes, strict=True)
    }


def _verdict(shown: Outcome) -> CheckVerdict:
    return CheckVerdict(hidden_passed=0, hidden=0, shown_passed=shown.passed, shown=shown.total)
