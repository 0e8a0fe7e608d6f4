"""The process of unit tests: comparisons are made here, calls go to the program under test. Standard library only.

It reads tests from the host's socket itself, so that the zygote, from which programs under test are forked, never has
them in its memory. It serves one problem after another until its tests might have changed its own state: then it says
so, and another process takes its place.
"""

import builtins
import json
import math
import os
import re
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from recipes.code.harness import wire
from recipes.code.harness.cases import CANDIDATE, parameters_in
from recipes.code.harness.counted_tests import COUNT, CountedTests, counted_tests, prompt_text, setup_text
from recipes.code.harness.failure import FirstFailure
from recipes.code.harness.remote import CandidateDied, RemoteProgram
from tasks.programs.sandbox import protocol

_LONG_REPLY = 1 << 16
"""Bytes of a reply that might leave a trace in this process's memory."""


def serve_tests(source: int, orders: int, done: int, verdicts: int, candidates: Sequence[tuple[int, int]]) -> None:
    """Run the tests of one problem after another until `orders` closes.

    `source`: the host's socket, with a frame of tests and one with the program. `orders`: for each problem a byte, the
    place in `candidates`, pipes (requests, replies) to programs under test. `done` and `verdicts`: what the zygote
    reads.
    """
    sys.modules.update(stand_ins())
    sys.set_int_max_str_digits(0)
    while order := os.read(orders, 1):
        _, tests = protocol.read_frame(source)
        _, program = protocol.read_frame(source)
        report = Report(done, verdicts)
        report.write(wire.READ)
        keeps_state = run_tests(tests, program, candidates[order[0]], report)
        os.write(done, wire.USED_UP if keeps_state else wire.FINISHED)


class Report:
    """Writes verdicts to a pipe, and says so before it is full."""

    def __init__(self, done: int, verdicts: int) -> None:
        self._done, self._verdicts = done, verdicts
        self._unread = 0

    def write(self, data: bytes) -> None:
        """Write verdicts, in parts that the pipe holds."""
        for start in range(0, len(data), wire.PIPE):
            part = data[start : start + wire.PIPE]
            if self._unread + len(part) > wire.PIPE:
                os.write(self._done, wire.MORE)
                self._unread = 0
            self._unread += len(part)
            protocol.write_all(self._verdicts, part)


def run_tests(tests: bytes, payload: bytes, pipes: tuple[int, int], report: Report) -> bool:
    """Run each text of tests and report its verdicts; True if this process may have another state afterwards.

    Where it is wanted, the first failure follows.
    """
    prompt, setup, entry_point, texts, is_failure_wanted = json.loads(tests)
    units = [counted_tests(text, entry_point) for text in texts]
    report.write(json.dumps([(unit.count, unit.is_exact, unit.faults) for unit in units]).encode() + b"\n")
    before = [setup_text(setup)] if setup else []
    names = set[str]().union(*(text.free_names for text in (*before, *units))) - {entry_point}
    head = prompt_text(prompt if names else "")  # without free names they need nothing of it
    namespace: dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins}
    first = FirstFailure(is_failure_wanted)

    def count(passed: bool) -> None:
        if not passed:
            first.keep(sys.exception())
        report.write(wire.PASSED if passed else wire.FAILED)

    namespace[COUNT] = count
    program = RemoteProgram(*pipes)
    try:
        program.start(payload)
        head.run(namespace, lambda _: None)  # it need not run
        for source, text in zip([setup] * len(before) + texts, (*before, *units), strict=True):
            first.text = source
            for name in text.free_names - namespace.keys():  # a text may use a module without importing it
                namespace[name] = sys.modules.get(name) or program.function(name)
            namespace[entry_point] = namespace[CANDIDATE] = program.function(entry_point)
            if isinstance(text, CountedTests):
                text.imports.install(program.function)
            ended = text.run(namespace, first.keep)
            if isinstance(text, CountedTests):
                report.write(wire.END if ended else wire.ABORTED)
            elif not ended:
                break  # of the setup; or code that makes it fail could define what it would have defined
    except CandidateDied as death:
        first.keep(death)
    if program.died:  # a test may have caught the exception
        report.write(wire.DEAD)
    if first.lines:
        report.write(b"\n" + json.dumps(first.lines).encode())
    return program.largest_reply > _LONG_REPLY or any(text.keeps_state for text in (head, *before, *units))


def stand_ins() -> dict[str, types.ModuleType]:
    """Stand-ins for the modules numpy and pytest, which tests import and the sandbox has not."""
    numpy, pytest = types.ModuleType("numpy"), types.ModuleType("pytest")
    vars(numpy).update(allclose=_allclose, ndarray=_Array, float32=_Array, float64=_Array)
    vars(pytest).update(raises=_Raises, approx=_Approx, mark=types.SimpleNamespace(parametrize=_parametrize))
    return {"numpy": numpy, "pytest": pytest}


class _Array:
    """No value here is one."""


def _allclose(first: Any, second: Any, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        pairs = zip(first, second, strict=True)
        return all(_allclose(one, other, rtol, atol) for one, other in pairs)
    return bool(first == second or (math.isfinite(second) and abs(first - second) <= atol + rtol * abs(second)))


class _Raises:
    """`pytest.raises` as a context."""

    value: BaseException

    def __init__(self, expected: Any, match: str | None = None) -> None:
        self._expected, self._match = expected, match

    def __enter__(self) -> "_Raises":
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        assert error is not None, "nothing was raised"
        self.value = error
        is_expected = isinstance(error, self._expected)
        assert not is_expected or self._match is None or re.search(self._match, str(error))
        return is_expected


class _Approx:
    """`pytest.approx` of a number, or of a list, tuple or dict of numbers."""

    __hash__ = None  # type: ignore[assignment] # as pytest's

    def __init__(self, expected: Any, rel: float = 1e-6, abs: float = 1e-12) -> None:
        self._expected, self._rel, self._abs = expected, rel, abs

    def __eq__(self, other: object) -> bool:
        return self._is_near(other, self._expected)

    def _is_near(self, number: Any, expected: Any) -> bool:
        if isinstance(expected, dict):
            return number.keys() == expected.keys() and all(
                self._is_near(number[key], expected[key]) for key in expected
            )
        if isinstance(expected, list | tuple):
            return (
                type(number) is type(expected)
                and len(number) == len(expected)
                and all(map(self._is_near, number, expected))
            )
        if isinstance(expected, bool) or not isinstance(number, int | float | complex):
            return bool(number == expected)
        return bool(number == expected or abs(number - expected) <= max(self._abs, self._rel * abs(expected)))


def _parametrize(names: str | Sequence[str], cases: Sequence[Any]) -> Callable[[Any], Any]:
    listed = parameters_in(names) if isinstance(names, str) else list(names)

    def decorate(test: Any) -> Any:
        rows = [dict(zip(listed, case if len(listed) > 1 else (case,), strict=True)) for case in cases]
        before: Sequence[dict[str, Any]] = getattr(test, "cases", ({},))
        test.cases = [{**others, **row} for others in before for row in rows]
        return test

    return decorate
