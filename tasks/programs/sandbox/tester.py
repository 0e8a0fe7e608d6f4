"""Unit tests of a program in another child: calls go to candidate.py, comparisons are made here. Standard library only.

The tests are read from the host's socket by this child itself, so that the zygote, from which programs under test are
forked, never has them in its memory. Written are the number of tests of each text, and then one letter for each test.
"""

import ast
import builtins
import importlib
import json
import math
import os
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tasks.programs.sandbox import protocol
from tasks.programs.sandbox.candidate import define_prompt
from tasks.programs.sandbox.plain_data import Reference, decode, encode

LARGEST = 1 << 22
"""Bytes of a result; more are a wrong result."""

ENDS_ITERATION = (StopIteration, StopAsyncIteration)
"""Exceptions that a test's own loop takes for its end: with one of them `all(map(f, inputs))` would be true."""

_COUNT, _CHECK = "__count_test__", "check"

Call = Callable[..., Any]


class CandidateDied(BaseException):
    """The program under test has ended. No `except Exception` of a test catches it."""


class CandidateError(Exception):
    """The program under test raised an exception that is not built in, or returned no plain data."""


def run_tests(source: int, calls: int, replies: int, results: int) -> None:
    """Read the tests from `source`, run each text, and write its verdicts to `results`."""
    _, payload = protocol.read_frame(source)
    os.close(source)
    protocol.write_all(results, protocol.READ)
    prompt, setup, entry_point, texts = json.loads(payload)
    units = [TestCounter(text) for text in texts]
    protocol.write_all(results, json.dumps([unit.count for unit in units]).encode() + b"\n")
    sys.modules["numpy"] = numpy_stand_in()
    sys.set_int_max_str_digits(0)

    def call(name: str) -> Call:
        return lambda *args, **kwargs: _call(calls, replies, name, args, kwargs)

    namespace: dict[str, Any] = {"__name__": "tests", "__builtins__": builtins}
    namespace[_COUNT] = lambda passed: protocol.write_all(results, protocol.PASSED if passed else protocol.FAILED)
    define_prompt(namespace, prompt)
    exec(compile(setup, "<setup>", "exec", dont_inherit=True), namespace)
    try:
        for unit in units:
            for name in unit.free_names - namespace.keys():
                namespace[name] = _module(name) or call(name)
            namespace[entry_point] = call(entry_point)
            protocol.write_all(results, protocol.END if unit.run(namespace, call(entry_point)) else protocol.ABORTED)
    except CandidateDied:
        protocol.write_all(results, protocol.DEAD)


class TestCounter:
    """A text of tests in which each assert reports and the next one runs whether it passes or not.

    The asserts are those at the top level and in a function `check(candidate)`, which is called with the function under
    test. If there are none, the calls there are the tests: those of a function that compares, say.
    """

    def __init__(self, text: str) -> None:
        tree = ast.parse(text)
        checks = [node for node in tree.body if _is_check(node)]
        self._has_check = bool(checks)
        lists = [each for place in (tree, *checks) for each in _lists(place)]
        is_test = _is_assert if any(_is_assert(node) for each in lists for node in each) else _is_call
        self.count = 0
        for statements in lists:
            for place, node in enumerate(statements):
                if is_test(node):
                    self.count += 1
                    statements[place] = _counted(node)
        self._compiled = compile(tree, "<tests>", "exec", dont_inherit=True)
        self.free_names = {name for name in _names(self._compiled) if not hasattr(builtins, name)}

    def run(self, namespace: dict[str, Any], candidate: Call) -> bool:
        """True if they ran to their end, tests that failed included; False if something else raised."""
        try:
            exec(self._compiled, namespace)
            if self._has_check:
                namespace[_CHECK](candidate)
        except Exception:  # noqa: BLE001 (of a test's text)
            return False
        return True


def _counted(node: ast.stmt) -> ast.stmt:
    """The statement in a `try` that reports it."""
    (counted,) = ast.parse(_REPORTED).body
    assert isinstance(counted, ast.Try)
    counted.body = [node]
    return counted


_REPORTED = f"try: pass\nexcept Exception: {_COUNT}(False)\nelse: {_COUNT}(True)"


def _lists(place: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements of a module or function, its loops and branches, without those of functions in it."""
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(place, name, ())
        if statements:
            yield statements
        for node in statements:
            if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                yield from _lists(node)
    for handler in getattr(place, "handlers", ()):
        yield from _lists(handler)


def _names(code: types.CodeType) -> Iterator[str]:
    """The names that code and its functions read beyond their own."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _is_check(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == _CHECK and len(node.args.args) == 1


def _is_assert(node: ast.stmt) -> bool:
    """True but for `assert True`, which tests nothing."""
    return isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant)


def _is_call(node: ast.stmt) -> bool:
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    return not (isinstance(node.value.func, ast.Name) and node.value.func.id == _CHECK)


def _call(calls: int, replies: int, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What the function returned. Raises what it raised, if that is a built-in exception; CandidateDied."""
    request = json.dumps(encode([name, list(args), kwargs], _number)).encode()
    try:
        protocol.write_frame(calls, protocol.CALL, request)
        _, reply = protocol.read_frame(replies, LARGEST)
    except (EOFError, OSError):
        raise CandidateDied from None
    try:
        status, data = json.loads(reply)
        value = decode(data, Reference) if status == "ok" else None
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise CandidateError("its reply is no plain data") from None
    if status != "ok":
        kind = getattr(builtins, data, None) if type(data) is str else None
        if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, ENDS_ITERATION):
            raise kind()
        raise CandidateError(str(data))
    return value


def _number(value: Any) -> int:
    if type(value) is Reference:
        return value.number
    raise TypeError(f"a {type(value).__name__} cannot be sent to the program under test")


def _module(name: str) -> types.ModuleType | None:
    """A module that a program may import, for tests that use one without importing it."""
    return importlib.import_module(name) if name in sys.modules and name.isidentifier() else None


def numpy_stand_in() -> types.ModuleType:
    """The part of numpy that EvalPlus's tests use, for numbers and nested lists."""
    module = types.ModuleType("numpy")

    class Array:
        """No value here is one."""

    def allclose(first: Any, second: Any, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
        if isinstance(first, list | tuple) and isinstance(second, list | tuple):
            pairs = zip(first, second, strict=True)
            return all(allclose(one, other, rtol, atol) for one, other in pairs)
        return bool(first == second or (math.isfinite(second) and abs(first - second) <= atol + rtol * abs(second)))

    vars(module).update(allclose=allclose, ndarray=Array, float32=Array, float64=Array)
    return module
