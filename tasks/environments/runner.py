"""Runners: the answers of a completion, by running it in the sandbox or by parsing it.

Separate from the environments, so that stages without answers do not depend on the sandbox.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from tasks.environments.direct import Direct
from tasks.environments.protocol import Environment
from tasks.params.sections import Sandbox as SandboxParams
from tasks.programs.operators.reply_cache import CachedModel
from tasks.programs.sandbox.sandbox import Program, make_sandbox
from tasks.records import Result


class Runner(Protocol):
    """Computes the answers of texts."""

    @property
    def serves(self) -> bool:
        """True if a model serves operators to the programs."""

    def run(self, programs: Sequence[Program]) -> list[list[Result]]:
        """For each text a result for each of its questions, in order."""


def make_runner(
    environment: Environment, sandbox: SandboxParams, served: CachedModel | None
) -> AbstractContextManager[Runner]:
    """An `AnswerReader` for a `Direct` environment, else the sandbox."""
    return nullcontext(AnswerReader(environment)) if isinstance(environment, Direct) else make_sandbox(sandbox, served)


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
