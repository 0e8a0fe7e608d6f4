"""Child process that calls a user's term of the reward, started by tasks/reward/user_terms.py.

    python -m tasks.reward.term_worker FOLDER module:function

A message is a call, [problem, text, results]; the answer is [value, error].
"""

import inspect
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from tasks.core.child_process import ParentConnection
from tasks.records.problems import Problem
from tasks.records.programs import Result
from tasks.reward.term_number import number

LENGTH = 300
"""Longest error message, in characters."""


def main(root: Path, name: str) -> None:
    """Load the function, answer with the error or none, then call it for each message until there are no more."""
    parent = ParentConnection()
    sys.path.insert(0, str(root))
    sys.dont_write_bytecode = True  # a file that is edited twice in one second would be taken for its old self
    try:
        function = load(name)
    except BaseException as error:  # noqa: BLE001 (reported to the parent)
        parent.send((None, format_error(error)))
        return
    parent.send((None, None))
    while True:
        problem, text, results = parent.receive()
        known = Problem.model_validate(problem), text, [Result.model_validate(result) for result in results]
        parent.send(call(function, *known))


def load(name: str) -> Callable[..., Any]:
    """Import `module:function`. Raises what its module raises, TypeError if it does not take three arguments."""
    module, _, attribute = name.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), attribute)
    if not callable(function):
        raise TypeError(f"{name} is a {type(function).__name__}, not a function")
    try:
        inspect.signature(function).bind("problem", "text", "results")
    except TypeError as error:
        raise TypeError(f"{name} must take three arguments, problem, text and results ({error})") from None
    except ValueError:
        pass  # a compiled function without a signature
    return function


def call(
    function: Callable[..., Any], problem: Problem, text: str, results: list[Result]
) -> tuple[float | None, str | None]:
    """(the returned value as a finite number, None) or (None, the error, whatever it raises)."""
    try:
        return number(function(problem, text, results)), None
    except BaseException as error:  # noqa: BLE001 (its own: SystemExit too)
        return None, format_error(error)


def format_error(error: BaseException) -> str:
    """An error on one short line, with the file and line that raised it."""
    machinery = (__file__, inspect.getfile(number), inspect.getfile(import_module))
    trace = traceback.extract_tb(error.__traceback__)
    frames = [f for f in trace if f.filename not in machinery and not f.filename.startswith("<frozen importlib")]
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words}"[:LENGTH].rstrip(": ") + place


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
