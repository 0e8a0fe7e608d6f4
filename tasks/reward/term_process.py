"""Calls of a user's function in a child process with a time limit per call.

The child is spawned, not forked, as this process may hold torch, and has a process group of its own, so that
processes started by the function end with it. It keeps its state between calls, a loaded model for instance.
"""

import math
from collections.abc import Sequence
from pathlib import Path

from tasks.core.child_process import JsonProcess
from tasks.errors import GraftError
from tasks.records.problems import Problem
from tasks.records.programs import Result
from tasks.reward.weighted_sum import TermValue

LOADING = 600.0
"""Time limit for the import of the function's module, in seconds: it may load a model."""


class TermProcess:
    """Calls `module:function`, at most `seconds` per call. Use it in a `with` block."""

    def __init__(self, root: Path, name: str, seconds: float) -> None:
        self._root, self._name, self._seconds = root, name, seconds

    def __enter__(self) -> "TermProcess":
        """Raises GraftError if the function cannot be loaded."""
        self._load()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()

    def __call__(self, problem: Problem, text: str, results: Sequence[Result]) -> TermValue:
        """The function's value for a completion; status `timeout` after the time limit, `failed` without a number.

        A process that has ended is restarted for the next call.
        """
        message = (problem.model_dump(mode="json"), text, [result.model_dump(mode="json") for result in results])
        if not self._process.send(message):
            self._load()
            self._process.send(message)
        return self._answer(self._seconds)

    def _load(self) -> None:
        seed = {"PYTHONHASHSEED": "0"}  # sets in the same order each time
        root = str(self._root.resolve())
        self._process = JsonProcess("tasks.reward.term_worker", root, self._name, env=seed, cwd=self._root)
        try:
            error = self._answer(LOADING).error
            if error is not None:
                raise GraftError(f"rewards.own: {self._name} could not be loaded: {error}; fix it, or correct the name")
        except BaseException:
            self._process.kill()
            raise

    def _answer(self, seconds: float) -> TermValue:
        """The answer; without one the reason."""
        try:
            return _value(self._process.receive(seconds))
        except TimeoutError as error:
            return TermValue(None, "timeout", str(error))
        except EOFError as error:
            return TermValue(None, "failed", f"its process {error}")
        except ValueError:
            return TermValue(None, "failed", "its process gave an invalid answer")


def _value(answer: object) -> TermValue:
    """[number, null] or [null, error]; the function may have written to the pipe as well. Raises ValueError."""
    match answer:
        case [int() | float() as value, None] if math.isfinite(value):
            return TermValue(value)
        case [None, None]:  # it is loaded
            return TermValue(None)
        case [None, str() as error]:
            return TermValue(None, "failed", error)
    raise ValueError
