"""Runners: the answers of a completion, by running it in the sandbox or by parsing it; code is then tested.

Separate from the environments, so that stages without answers do not depend on the sandbox.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from tasks.environments.direct import Direct
from tasks.environments.protocol import Environment
from tasks.evaluators.unit_tests import unit_tests_of
from tasks.params.sections import SandboxParams
from tasks.programs.operators.reply_cache import CachedModel
from tasks.programs.sandbox.sandbox import MAX_SOURCE, SANDBOX_DIED, Program, Sandbox, make_sandbox
from tasks.programs.sandbox.unit_tests.outcomes import Outcome, UnitTests, run_unit_tests
from tasks.records import CodeVerdict, Problem, Result


class Runner(Protocol):
    """Computes the answers of texts."""

    @property
    def serves(self) -> bool:
        """True if a model serves operators to the programs."""

    def run(self, programs: Sequence[Program]) -> list[list[Result]]:
        """For each text a result for each of its questions, in order."""


def program_of(code: str, problem: Problem, siblings: bool = True) -> Program:
    """Code for the questions of a problem, or for its own question alone, with what checks its answers."""
    questions = problem.questions if siblings else (problem.question,)
    return Program(code, questions, problem.evaluator, unit_tests_of(problem))


@contextmanager
def make_runner(environment: Environment, sandbox: SandboxParams, served: CachedModel | None) -> Iterator[Runner]:
    """An `AnswerReader` for a `Direct` environment, else the sandbox; both test what is code."""
    with ExitStack() as stack:
        if isinstance(environment, Direct):
            yield UnitTestRunner(AnswerReader(environment), sandbox, stack)
        else:
            yield UnitTestRunner(stack.enter_context(make_sandbox(sandbox, served)), sandbox, stack)


class AnswerReader:
    """Parses the answer of a text."""

    serves = False

    def __init__(self, environment: Direct) -> None:
        self._environment = environment

    def run(self, programs: Sequence[Program]) -> list[list[Result]]:
        """One result for each text: the answer to its problem's own question."""
        return [[self._read(program)] for program in programs]

    def _read(self, program: Program) -> Result:
        """An exception in the parser gives a `failed` result, which is never rewarded with 0."""
        try:
            value = self._environment.parse_for(program.evaluator, program.code)
        except Exception as error:  # noqa: BLE001 (a user's parser may raise anything)
            return Result(status="failed", error=f"parse: {type(error).__name__}: {error}"[:200])
        if value is None:
            return Result(status="error", error="no answer")
        return Result(status="ok", value=value)


class UnitTestRunner:
    """A runner whose values are code where the problem has unit tests: these give verdicts instead of the code."""

    def __init__(self, runner: Runner, params: SandboxParams, stack: ExitStack) -> None:
        self._runner, self._params, self._stack = runner, params, stack
        self._sandbox = runner if isinstance(runner, Sandbox) else None  # else started for the first code

    @property
    def serves(self) -> bool:
        """As the runner."""
        return self._runner.serves

    def run(self, programs: Sequence[Program]) -> list[list[Result]]:
        """The runner's results; those of code with a verdict as value."""
        results = self._runner.run(programs)
        places = [i for i, program in enumerate(programs) if program.tests and results[i][0].status == "ok"]
        verdicts = self._test([(results[i][0].value, programs[i].tests or "") for i in places])
        for place, tested in zip(places, verdicts, strict=True):
            results[place] = [tested, *results[place][1:]]
        return results

    def _test(self, pairs: Sequence[tuple[Any, str]]) -> list[Result]:
        """Verdicts on (value, tests). Shown and hidden tests are run apart; equal pairs once."""
        jobs: dict[tuple[str, UnitTests], Outcome | None] = {}
        for value, tests in pairs:
            if _is_code(value):
                jobs.update(dict.fromkeys((value, each) for each in _unit_tests(tests) if each.texts))
        if jobs:
            self._sandbox = self._sandbox or self._stack.enter_context(make_sandbox(self._params))
            jobs.update(zip(jobs, run_unit_tests(self._sandbox, list(jobs)), strict=True))
        return [
            _result(value, [jobs.get((value, each), NONE) for each in _unit_tests(tests)]) for value, tests in pairs
        ]


NONE = Outcome(0, 0)
"""Where there are no tests."""


def _unit_tests(tests: str) -> list[UnitTests]:
    """The hidden and the shown tests of `Program.tests`."""
    own = json.loads(tests)
    return [UnitTests.of(own, "hidden"), UnitTests.of(own, "shown")]


def _is_code(value: object) -> bool:
    return isinstance(value, str) and len(value.encode("utf-8", "replace")) <= MAX_SOURCE


def _result(value: object, outcomes: Sequence[Outcome | None]) -> Result:
    if not _is_code(value):
        return Result(status="error", error=f"returned no code of at most {MAX_SOURCE} bytes")
    hidden, shown = outcomes
    if hidden is None or shown is None:
        return Result(status="failed", error=SANDBOX_DIED)
    verdict = CodeVerdict(
        hidden_passed=hidden.passed,
        hidden=hidden.total,
        shown_passed=shown.passed,
        shown=shown.total,
        ending=hidden.ending or shown.ending,
    )
    return Result(status="ok", value=verdict)
