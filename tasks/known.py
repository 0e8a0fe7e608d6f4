"""Numbers that were computed before: the intervals and p-values that a finished run is told with.

They are pure functions of numbers, and take longer than all else that is left to do where every stage is done. Kept
in a file of the workspace, no more of them than the last run asked for.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, wraps
from importlib.metadata import version
from inspect import getfile
from pathlib import Path
from typing import ParamSpec, TypeVar

from pydantic import FiniteFloat

from tasks.artifacts import digest_path, digest_text, read_json, write_json
from tasks.errors import GraftError
from tasks.records import Record

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")


class Known(Record):
    """The file: digest of a function and its arguments → the numbers that it gave."""

    numbers: dict[str, list[FiniteFloat]]


_BEFORE: ContextVar[dict[str, list[float]] | None] = ContextVar("before", default=None)
_ASKED: ContextVar[dict[str, list[float]]] = ContextVar("asked")


@contextmanager
def knowing(path: Path) -> Iterator[None]:
    """In this block a `known` function is not asked again for what it told in the last such block with this file."""
    before, asked = _read(path), dict[str, list[float]]()
    tokens = _BEFORE.set(before), _ASKED.set(asked)
    try:
        yield
    finally:
        _BEFORE.reset(tokens[0])
        _ASKED.reset(tokens[1])
    if asked != before:
        with suppress(OSError):  # a full disk: it is computed again the next time
            write_json(path, Known(numbers=asked))


def known(
    value_of: Callable[[list[float]], Value], numbers_of: Callable[[Value], list[float]]
) -> Callable[[Callable[Arguments, Value]], Callable[Arguments, Value]]:
    """A pure function of plain values, whose own value is as good as some numbers, remembered where `knowing` is."""

    def decorate(function: Callable[Arguments, Value]) -> Callable[Arguments, Value]:
        @wraps(function)
        def remembered(*positional: Arguments.args, **named: Arguments.kwargs) -> Value:
            before = _BEFORE.get()
            if before is None:
                return function(*positional, **named)
            key = digest_text(repr((function.__qualname__, _made_by(function), positional, sorted(named.items()))))
            numbers = _ASKED.get().get(key) or before.get(key) or numbers_of(function(*positional, **named))
            _ASKED.get()[key] = numbers
            return value_of(numbers)

        return remembered

    return decorate


@cache
def _made_by(function: Callable[..., object]) -> tuple[str, str]:
    """The source that it is in, and the library that does the work."""
    return digest_path(Path(getfile(function))), version("scipy")


def _read(path: Path) -> dict[str, list[float]]:
    """Nothing where there is no such file, or a damaged one."""
    try:
        return read_json(path, Known).numbers if path.is_file() else {}
    except GraftError:
        return {}
