"""Solutions that come with problems of code, as workflows; confirmed in the sandbox by the tests that are shown."""

from collections.abc import Sequence

from tasks.coldstart.solve_problems import workflow_record
from tasks.params.sections import Sandbox as SandboxParams
from tasks.programs.code_blocks import code_of
from tasks.programs.sandbox.sandbox import make_sandbox
from tasks.programs.sandbox.unit_tests.outcomes import Outcome, UnitTests, run_unit_tests
from tasks.records import UNIT_TESTS, CodeVerdict, Problem, Result, Workflow


def known_solutions(problems: Sequence[Problem], params: SandboxParams) -> list[Workflow]:
    """The solution of each problem of code that brings one and passes its shown tests, if it has any."""
    found = [(p, p.answer) for p in problems if p.evaluator == UNIT_TESTS and isinstance(p.answer, dict)]
    coded = [(problem, answer, code_of(str(answer["solution"]))) for problem, answer in found if answer["solution"]]
    if not coded:
        return []
    with make_sandbox(params) as sandbox:
        outcomes = run_unit_tests(sandbox, [(code, UnitTests.of(answer, "shown")) for _, answer, code in coded])
    return [
        workflow_record(problem, code, 0, [Result(status="ok", value=_verdict(outcome))])
        for (problem, _, code), outcome in zip(coded, outcomes, strict=True)
        if outcome is not None and outcome.passed == outcome.total
    ]


def _verdict(shown: Outcome) -> CodeVerdict:
    return CodeVerdict(hidden_passed=0, hidden=0, shown_passed=shown.passed, shown=shown.total)
