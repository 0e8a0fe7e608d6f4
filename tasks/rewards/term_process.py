"""Calls of a user's function in a child process with a time limit per call.

The child is spawned, not forked, as this process may hold torch, and has a process group of its own, so that
processes started by the function end with it. It keeps its state between calls, a loaded model for instance.
"""

import json
import math
import signal
import subprocess
from collections.abc import Sequence
from multiprocessing.connection import wait
from pathlib import Path
from types import TracebackType

from tasks.core.child_process import kill_tree, spawn
from tasks.errors import GraftError
from tasks.records import Problem, Result
from tasks.rewards.weighted_sum import TermValue

LOADING = 600.0
"""Time limit for the import of the function's module, in seconds: it may load a model."""


class TermProcess:
    """Calls `module:function`, at most `seconds` per call. Use it in a `with` block."""

    def __init__(self, root: Path, name: str, seconds: float) -> None:
        self._root, self._name, self._seconds = root, name, seconds
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "TermProcess":
        """Raises GraftError if the function cannot be loaded."""
        try:
            self._load()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def __call__(self, problem: Problem, text: str, results: Sequence[Result]) -> TermValue:
        """The function's value for a completion; status `timeout` after the time limit, `failed` without a number.

        A process that has ended is restarted for the next call.
        """
        parts = (problem.model_dump(mode="json"), text, [result.model_dump(mode="json") for result in results])
        order = json.dumps(parts).encode() + b"\n"
        if not self._sent(order):
            self._load()
            self._sent(order)
        return self._answer(self._seconds)

    def _load(self) -> None:
        self._process = _start(self._root, self._name)
        error = self._answer(LOADING).error
        if error is not None:
            raise GraftError(f"rewards.own: {self._name} could not be loaded: {error}; fix it, or correct the name")

    def _sent(self, order: bytes) -> bool:
        """False if the process has ended: its last call timed out, or it ended in between."""
        if self._process is None:
            return False
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(order)
            self._process.stdin.flush()
        except BrokenPipeError:
            self._end()
            return False
        return True

    def _answer(self, seconds: float) -> TermValue:
        """The answer; without one the reason, and the process is ended."""
        if self._process is None:
            return TermValue(None, "failed", "its process ended before it was called")
        assert self._process.stdout is not None
        if not wait([self._process.stdout.fileno()], seconds):
            self._end()
            return TermValue(None, "timeout", f"no answer within {seconds:g} s")
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            code = self._end()
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            return TermValue(None, "failed", f"its process {how}")
        return _read(line)

    def _end(self) -> int:
        """Kill the process group; returns the exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        code = kill_tree(process)
        assert process.stdout is not None
        process.stdout.close()
        return code


def _read(line: bytes) -> TermValue:
    """Parse [number, null] or [null, error]; the function may have written to the pipe as well."""
    try:
        match json.loads(line):
            case [int() | float() as value, None] if math.isfinite(value):
                return TermValue(value)
            case [None, None]:  # it is loaded
                return TermValue(None)
            case [None, str() as error]:
                return TermValue(None, "failed", error)
    except (ValueError, RecursionError):
        pass
    return TermValue(None, "failed", "its process gave an invalid answer")


def _start(root: Path, name: str) -> "subprocess.Popen[bytes]":
    seed = {"PYTHONHASHSEED": "0"}  # sets in the same order each time
    return spawn("tasks.rewards.term_worker", str(root.resolve()), name, env=seed, cwd=root, stdout=subprocess.PIPE)
