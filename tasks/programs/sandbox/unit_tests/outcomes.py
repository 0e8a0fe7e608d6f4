"""Unit tests of code: what the zygote is sent for them, and the verdicts that it sends back."""

import ast
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tasks.programs.sandbox import protocol
from tasks.programs.sandbox.determinism import Findings
from tasks.programs.sandbox.sandbox import Sandbox
from tasks.programs.sandbox.unit_tests.program_parts import program_parts


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
    """The outcome of each (code, tests); None if the sandbox died, twice.

    The first test in which the code dies, or exceeds the limits of the sandbox for all of the tests together, fails,
    and so do those after it. Code that passes a test and might not be deterministic (determinism.py) is tested twice,
    and passes none if the outcomes differ.
    """
    requests = [_request(code, tests) for code, tests in jobs]
    outcomes = _outcomes(sandbox, jobs, requests)
    doubtful = [i for i, outcome in enumerate(outcomes) if outcome and outcome.passed and requests[i].may_differ]
    chosen = [jobs[i] for i in doubtful], [requests[i] for i in doubtful]
    for i, second in zip(doubtful, _outcomes(sandbox, *chosen, again=True), strict=True):
        first = outcomes[i]
        if first and second and second[:2] != first[:2] and second.ending != LATE:  # on a busy machine it may be late
            outcomes[i] = Outcome(0, first.total, "not deterministic")
    return outcomes


class Request(NamedTuple):
    """What the zygote is sent; `may_differ`: the code might do something else in another run."""

    process: bytes  # SHARED or OWN
    tests: bytes
    may_differ: bool


def _outcomes(
    sandbox: Sandbox, jobs: Sequence[tuple[str, UnitTests]], requests: Sequence[Request], again: bool = False
) -> list[Outcome | None]:
    answers = sandbox.run_tests([request[:2] for request in requests], again)
    return [_outcome(tests, *answer) for (_, tests), answer in zip(jobs, answers, strict=True)]


def _request(code: str, tests: UnitTests) -> Request:
    program = (tests.prompt, code, tests.entry_point, tests.setup)
    may_differ, may_keep_state = _findings(*program)
    texts = json.dumps([tests.prompt, tests.setup, tests.entry_point, tests.texts]).encode()
    frames = protocol.pack(protocol.TESTS, texts) + protocol.pack(protocol.PROGRAM, json.dumps(program).encode())
    return Request(protocol.OWN if may_differ or may_keep_state else protocol.SHARED, frames, may_differ)


def _findings(prompt: str, code: str, entry_point: str, setup: str) -> tuple[bool, bool]:
    """Whether a program may differ in another run, and whether it may keep state; True if in doubt."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            parts = program_parts(prompt, code, entry_point, setup)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return True, True
    found = Findings(ast.Module([node for part in parts for node in part.body], []))
    return found.may_differ, found.may_keep_state


def _outcome(tests: UnitTests, kind: bytes, payload: bytes) -> Outcome | None:
    """The outcome from the bytes of the child with the tests."""
    if kind == protocol.DIED:
        return None
    if kind not in (protocol.ENDINGS, protocol.TIMEOUT) or not payload:
        return Outcome(0, len(tests.texts), "out of memory" if kind == protocol.MEMORY else "killed")
    head, _, verdicts = payload.partition(b"\n")
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
