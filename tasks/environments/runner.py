"""Runners: the answers of a completion, by running it in the sandbox or by parsing it, then by trying them out.

Separate from the environments, so that stages without answers do not depend on the sandbox.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Protocol

from tasks.environments.direct import Direct
from tasks.environments.protocol import Environment, Judge
from tasks.params.sections import SandboxParams
from tasks.programs.operators.model import CachedModel
from tasks.programs.sandbox.sandbox import Program, make_sandbox
from tasks.records.problems import NUMBER, Problem
from tasks.records.programs import Result


class Runner(Protocol):
    """Computes the answers of texts."""

    @property
    def serves(self) -> bool:
        """True if a model serves operators to the programs."""

    def run(self, programs: Sequence[Program]) -> list[list[Result]]:
        """For each text a result for each of its questions, in order."""


def program_of(code: str, problem: Problem, siblings: bool = True) -> Program:
    """Code for the questions of a problem, or for its own question alone, which its answers are for."""
    questions = problem.questions if siblings else (problem.question,)
    return Program(code, questions, problem)


@contextmanager
def make_runner(environment: Environment, sandbox: SandboxParams, served: CachedModel | None) -> Iterator[Runner]:
    """An `AnswerReader` for a `Direct` environment, else the sandbox; the environment's judge has the last word."""
    with ExitStack() as stack:
        judge = stack.enter_context(environment.judge(sandbox))
        runner: Runner
        if isinstance(environment, Direct):
            runner = AnswerReader(environment)
        else:
            runner = stack.enter_context(make_sandbox(sandbox, served))
        yield JudgedRunner(runner, judge) if judge else runner


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
            evaluator = program.problem.evaluator if program.problem else NUMBER
            value = self._environment.parse_for(evaluator, program.code)
        except Exception as error:  # noqa: BLE001 (a user's parser may raise anything)
            return Result(status="failed", error=f"parse: {type(error).__name__}: {error}"[:200])
        if value is None:
            return Result(status="error", error="no answer")
        return Result(status="ok", value=value)


class JudgedRunner:
    """A runner whose results on problems' own questions are those of a judge, where there was an answer."""

    def __init__(self, runner: Runner, judge: Judge) -> None:
        self._runner, self._judge = runner, judge

    @property
    def serves(self) -> bool:
        """Whether the runner's programs may call operators that need a model."""
        return self._runner.serves

    def run(self, programs: Sequence[Program]) -> list[list[Result]]:
        """The runner's results; the first of each program's is the judge's."""
        results = self._runner.run(programs)
        asked = [
            (answers, program.problem, answers[0])
            for answers, program in zip(results, programs, strict=True)
            if program.problem and answers[0].status == "ok"
        ]
        judged = self._judge([(problem, result) for _, problem, result in asked])
        for (answers, _, _), result in zip(asked, judged, strict=True):
            answers[0] = result
        return results
