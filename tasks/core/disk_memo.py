"""What was computed before: the intervals, p-values and tables that a finished run is told with.

They are pure functions of numbers, and of files by their digests, and take longer than all else that is left to do
where every stage is done. Kept in a file of the workspace, no more of them than the last run asked for.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, wraps
from importlib.metadata import version
from inspect import getfile
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from tasks.artifacts import digest_path, digest_text, read_json, write_json
from tasks.errors import GraftError
from tasks.records import Record

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")


class Known(Record):
    """The file: digest of a function and its arguments → what it gave, as JSON has it."""

    values: dict[str, Any]


_BEFORE: ContextVar[dict[str, Any] | None] = ContextVar("before", default=None)
_ASKED: ContextVar[dict[str, Any]] = ContextVar("asked")


@contextmanager
def knowing(path: Path) -> Iterator[None]:
    """In this block a `known` function is not asked again for what it told in the last such block with this file."""
    before, asked = _read(path), dict[str, Any]()
    tokens = _BEFORE.set(before), _ASKED.set(asked)
    try:
        yield
    finally:
        _BEFORE.reset(tokens[0])
        _ASKED.reset(tokens[1])
    if asked != before:
        with suppress(OSError):  # a full disk: it is computed again the next time
            write_json(path, Known(values=asked))


def known(function: Callable[Arguments, Value]) -> Callable[Arguments, Value]:
    """A pure function of plain values, remembered where `knowing` is. Its value is what its annotation says."""

    @wraps(function)
    def remembered(*positional: Arguments.args, **named: Arguments.kwargs) -> Value:
        before = _BEFORE.get()
        if before is None:
            return function(*positional, **named)
        key = digest_text(repr((function.__qualname__, _made_by(function), positional, sorted(named.items()))))
        asked = _ASKED.get()
        with suppress(KeyError, ValidationError):  # new, or damaged
            found: Value = _of(function).validate_python(asked[key] if key in asked else before[key])
            asked.setdefault(key, before.get(key))
            return found
        value = function(*positional, **named)
        asked[key] = _of(function).dump_python(value, mode="json")
        return value

    return remembered


@cache
def _of(function: Callable[..., Value]) -> TypeAdapter[Value]:
    """What it gives."""
    return TypeAdapter(get_type_hints(function)["return"])


@cache
def _made_by(function: Callable[..., object]) -> tuple[str, str]:
    """The source that it is in, and the library that does the work."""
    return digest_path(Path(getfile(function))), version("scipy")


def _read(path: Path) -> dict[str, Any]:
    """Nothing where there is no such file, or a damaged one."""
    try:
        return read_json(path, Known).values if path.is_file() else {}
    except GraftError:
        return {}
