"""Terms of the reward by the user's functions (`rewards.own`), each called in a child process with a time limit.

The child is spawned, not forked, as this process may hold torch, and has a process group of its own, so that
processes started by the function end with it. It keeps its state between calls, a loaded model for instance.
"""

import math
from collections.abc import Sequence
from pathlib import Path

from tasks.core.child_process import JsonProcess
from tasks.errors import GraftError
from tasks.params.sections import UserTerm
from tasks.records.problems import Problem
from tasks.records.programs import Result
from tasks.reward.weighted_sum import TermColumn, TermValue
from tasks.trajectories import Trajectory

LOADING = 600.0
"""Time limit for the import of the function's module, in seconds: it may load a model."""

SECONDS = 10.0
"""Time limit of one call of a function; after it there is no reward."""

TRIED = 32
"""Calls without a value after which a function is refused, whatever share may fail."""


def user_term_column(
    root: Path, term: UserTerm, trajectories: Sequence[Trajectory], total: int, limit: float, seconds: float
) -> list[TermColumn]:
    """Value of `term` for each completion [P, G], called once for each distinct completion of a problem.

    Raises GraftError if it cannot be loaded, as soon as more than `limit` (a share) of all `total` completions of the
    round failed, or it has no value for the first TRIED: a function that hangs on each of thousands would otherwise
    take hours.
    """
    calls = failed = values = 0
    columns: list[TermColumn] = []
    with TermProcess(root, term.term, seconds) as call:
        for trajectory in trajectories:
            cached: dict[tuple[str, tuple[Result, ...]], TermValue] = {}
            column = []
            for member in trajectory.members:
                text, results = member.code, tuple(member.results)
                if (text, results) not in cached:
                    cached[text, results] = call(trajectory.problem, text, results)
                    calls += 1
                measured = cached[text, results]
                column.append(measured)
                failed += measured.status != "ok"
                values += measured.status == "ok"
                if failed / total > limit or (not values and calls == TRIED):
                    told = f"more than {limit:.0%}" if failed / total > limit else "all that it was called for"
                    raise GraftError(
                        f"rewards.own: {term.name} ({term.term}) has failed on {failed} of {total} completions, {told};"
                        f" workflow {member.workflow_id} of problem {trajectory.problem_id}, for instance:"
                        f" {measured.error}; fix it"
                    )
            columns.append(column)
    return columns


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
