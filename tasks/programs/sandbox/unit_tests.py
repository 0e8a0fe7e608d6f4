"""Unit tests of code: what the zygote is sent for them, and the verdicts that it sends back."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tasks.programs.sandbox import protocol
from tasks.programs.sandbox.determinism import may_differ
from tasks.programs.sandbox.sandbox import Sandbox


@dataclass(frozen=True)
class UnitTests:
    """Tests of a function: texts, each of them asserts or a function `check(candidate)`.

    `prompt`: what the code continues, "" if it stands alone; `setup`: run before the tests.
    """

    entry_point: str
    texts: tuple[str, ...]
    prompt: str = ""
    setup: str = ""


LATE = "out of time"
"""Ending of an outcome."""


class Outcome(NamedTuple):
    """Tests that passed, of all; `ending`: why the others were not run, "" if they were."""

    passed: int
    total: int
    ending: str = ""


def run_unit_tests(sandbox: Sandbox, jobs: Sequence[tuple[str, UnitTests]]) -> list[Outcome | None]:
    """The outcome of each (code, tests), each in two children of its own; None if the sandbox died, twice.

    The first test in which the code dies, or exceeds the limits of the sandbox for all of the tests together, fails,
    and so do those after it. Code that passes a test and might not be deterministic (determinism.py) is tested twice,
    and passes none if the outcomes differ.
    """
    outcomes = _outcomes(sandbox, jobs)
    doubtful = [i for i, (code, _) in enumerate(jobs) if (found := outcomes[i]) and found.passed and may_differ(code)]
    for i, second in zip(doubtful, _outcomes(sandbox, [jobs[i] for i in doubtful], again=True), strict=True):
        first = outcomes[i]
        if first and second and second[:2] != first[:2] and second.ending != LATE:  # on a busy machine it may be late
            outcomes[i] = Outcome(0, first.total, "not deterministic")
    return outcomes


def _outcomes(sandbox: Sandbox, jobs: Sequence[tuple[str, UnitTests]], again: bool = False) -> list[Outcome | None]:
    answers = sandbox.run_tests([_request(code, tests) for code, tests in jobs], again)
    return [_outcome(tests, *answer) for (_, tests), answer in zip(jobs, answers, strict=True)]


def _request(code: str, tests: UnitTests) -> tuple[bytes, bytes]:
    program = json.dumps([tests.prompt, code, tests.entry_point])
    return program.encode(), json.dumps([tests.prompt, tests.setup, tests.entry_point, tests.texts]).encode()


def _outcome(tests: UnitTests, kind: bytes, payload: bytes) -> Outcome | None:
    """The outcome from the bytes of the child with the tests."""
    if kind == protocol.DIED:
        return None
    least = [1] * len(tests.texts)
    if kind not in (protocol.ENDINGS, protocol.TIMEOUT):
        return Outcome(0, len(least), "killed")
    head, _, verdicts = payload.partition(b"\n")
    if not head.startswith(b"[") or not all(type(count) is int for count in json.loads(head)):
        return Outcome(0, len(least), "out of memory" if head.startswith(b"[") else "killed")
    counts = [max(1, count) for count in json.loads(head)]
    passed = total = 0
    units = _units(verdicts)
    for place, count in enumerate(counts):
        good, bad, ended = units[place] if place < len(units) else (0, 0, False)
        own = max(count, good + bad)
        total += own
        passed += own if ended and not bad else min(good, own - 1)
    late = LATE if kind == protocol.TIMEOUT else "it ended" if protocol.DEAD in verdicts else ""
    return Outcome(passed, total, late if passed < total else "")


def _units(verdicts: bytes) -> list[tuple[int, int, bool]]:
    """(passed, failed, whether it ran to its end) of each text of tests that was begun."""
    found = []
    good = bad = 0
    for letter in verdicts:
        good += letter == ord(protocol.PASSED)
        bad += letter == ord(protocol.FAILED)
        if letter in protocol.END + protocol.ABORTED:
            found.append((good, bad, letter == ord(protocol.END)))
            good = bad = 0
    return [*found, (good, bad, False)]
