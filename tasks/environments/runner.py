"""Which answers a text gives: found by running it in the sandbox, or by reading it.

Apart from the environments themselves, so that a stage which asks for no answers does not depend on the sandbox.
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
    """Finds out which answers a text gives."""

    @property
    def serves(self) -> bool:
        """Whether a model serves operators to what it runs."""

    def run(self, programs: Sequence[Program]) -> list[list[Result]]:
        """Of each text a result for each of its questions, in their order."""


def make_runner(
    environment: Environment, sandbox: SandboxParams, served: CachedModel | None
) -> AbstractContextManager[Runner]:
    """What finds the answers: reads them where the environment is a `Direct` one, else runs programs in the sandbox."""
    return nullcontext(AnswerReader(environment)) if isinstance(environment, Direct) else make_sandbox(sandbox, served)


class AnswerReader:
    """Finds answers by reading."""

    serves = False

    def __init__(self, environment: Direct) -> None:
        self._environment = environment

    def run(self, programs: Sequence[Program]) -> list[list[Result]]:
        """One result for each text, as it answers its problem's own question."""
        return [[self._read(program.code)] for program in programs]

    def _read(self, text: str) -> Result:
        """A parser that breaks down tells nothing about the text: the result is `failed`, which is never a 0."""
        try:
            value = self._environment.parse(text)
        except Exception as error:  # noqa: BLE001 (anything may come out of a parser of somebody's own)
            return Result(status="failed", error=f"parse: {type(error).__name__}: {error}"[:200])
        if value is None:
            return Result(status="error", error="no answer")
        return Result(status="ok", value=value)
