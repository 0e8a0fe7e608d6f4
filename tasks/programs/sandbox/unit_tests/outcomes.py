"""Unit tests of code: what the zygote is sent for them, and the verdicts that it sends back."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tasks.programs.sandbox import protocol
from tasks.programs.sandbox.plain_programs import is_plain_function
from tasks.programs.sandbox.sandbox import Sandbox


@dataclass(frozen=True)
class UnitTests:
    """Tests of a function: texts of asserts, a function `check`, or test functions and classes.

    `prompt`: what the code continues, "" if it stands alone; `setup`: run before the tests. `counts`: how many tests
    each text has, where that is known from a run of them (tasks/problems/unit_test_check.py). `shown`: texts that are
    run first and counted apart.
    """

    entry_point: str
    texts: tuple[str, ...]
    prompt: str = ""
    setup: str = ""
    counts: tuple[int | None, ...] = ()
    shown: tuple[str, ...] = ()

    @classmethod
    def of(cls, answer: Mapping[str, Any], shown: bool = False) -> "UnitTests":
        """The hidden ones of a problem's answer (tasks/evaluators/unit_tests.py), and the `shown` ones if wanted."""
        counts, first = tuple(answer.get("counts") or ()), tuple(answer["shown"]) if shown else ()
        return cls(answer["entry_point"], tuple(answer["hidden"]), answer["prompt"], answer["setup"], counts, first)


LATE = "out of time"
"""Ending of an outcome."""

_WITH_VERDICTS = (protocol.ENDINGS, protocol.TIMEOUT)


class Outcome(NamedTuple):
    """Tests that passed, of all, without those that are shown; `ending`: why others were not run, "" if they were."""

    passed: int
    total: int
    ending: str = ""
    shown_passed: int = 0
    shown: int = 0

    @property
    def counts(self) -> tuple[int, ...]:
        """All but the ending."""
        return (self.passed, self.total, self.shown_passed, self.shown)


class TextVerdicts(NamedTuple):
    """Verdicts on a text of tests, and what its syntax says: see CountedTests."""

    passed: int
    failed: int
    ended: bool
    tests: int
    is_exact: bool
    faults: list[str]


def run_unit_tests(sandbox: Sandbox, jobs: Sequence[tuple[str, UnitTests]]) -> list[Outcome | None]:
    """The outcome of each (code, tests); None if the sandbox died, twice.

    The first test in which the code dies, or exceeds the limits of the sandbox for all of the tests together, fails,
    and so do those after it. Code that passes a test and is not plain (plain_programs.py) is tested again in another
    memory layout, and passes none if the outcomes differ.
    """
    outcomes = _outcomes(sandbox, jobs)
    passing = [i for i, each in enumerate(outcomes) if each and each.passed + each.shown_passed]
    doubtful = [i for i in passing if not is_plain_function(jobs[i][0], jobs[i][1].entry_point)]
    for i, second in zip(doubtful, _outcomes(sandbox, [jobs[i] for i in doubtful], again=True), strict=True):
        first = outcomes[i]
        if first and second and second.counts != first.counts and second.ending != LATE:  # as on a busy machine
            outcomes[i] = Outcome(0, first.total, "not deterministic", 0, first.shown)
    return outcomes


def text_verdicts(sandbox: Sandbox, jobs: Sequence[tuple[str, UnitTests]]) -> list[list[TextVerdicts]]:
    """The verdicts on each text of tests, of each (code, tests); [] if they exceeded the limits of the sandbox."""
    answers = sandbox.run_tests([_request(code, tests) for code, tests in jobs])
    return [_read(payload)[0] if kind in _WITH_VERDICTS and payload else [] for kind, payload in answers]


def _outcomes(sandbox: Sandbox, jobs: Sequence[tuple[str, UnitTests]], again: bool = False) -> list[Outcome | None]:
    answers = sandbox.run_tests([_request(code, tests) for code, tests in jobs], again)
    return [_outcome(tests, *answer) for (_, tests), answer in zip(jobs, answers, strict=True)]


def _request(code: str, tests: UnitTests) -> bytes:
    """The frames for the process of the tests."""
    program = json.dumps((tests.prompt, code, tests.entry_point, tests.setup)).encode()
    texts = json.dumps((tests.prompt, tests.setup, tests.entry_point, tests.shown + tests.texts)).encode()
    return protocol.pack(protocol.TESTS, texts) + protocol.pack(protocol.PROGRAM, program)


def _outcome(tests: UnitTests, kind: bytes, payload: bytes) -> Outcome | None:
    """The outcome from the bytes of the child with the tests."""
    if kind == protocol.DIED:
        return None
    if kind not in _WITH_VERDICTS or not payload:
        total = sum(count or 1 for count in tests.counts) or len(tests.texts)
        return Outcome(0, total, "out of memory" if kind == protocol.MEMORY else "killed", 0, len(tests.shown))
    units, verdicts = _read(payload)
    first = len(tests.shown)
    known = (*(None,) * first, *(tests.counts or (None,) * len(tests.texts)))
    pairs = [_passed(unit, count) for unit, count in zip(units, known, strict=True)]
    (shown_passed, shown), (passed, total) = map(_sums, (pairs[:first], pairs[first:]))
    late = LATE if kind == protocol.TIMEOUT else "it ended" if protocol.DEAD in verdicts else ""
    all_passed = passed + shown_passed == total + shown
    return Outcome(passed, total, "" if all_passed else late, shown_passed, shown)


def _sums(pairs: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return sum(passed for passed, _ in pairs), sum(total for _, total in pairs)


def _passed(unit: TextVerdicts, known: int | None) -> tuple[int, int]:
    """(tests that passed, all) of a text.

    All is known before anything runs: from an earlier run, or by the syntax, where no test is in a loop. Fewer verdicts
    are no full pass, and where nothing says how many are missing no pass at all.
    """
    seen = unit.passed + unit.failed
    total = max(seen, unit.tests if known is None else known, not unit.ended)
    if unit.ended and seen == unit.passed and seen >= (min(1, unit.tests) if known is None else known):
        return total, total
    is_known = unit.ended or unit.is_exact or known is not None
    return (min(unit.passed, total - 1) if is_known else 0), total


def _read(payload: bytes) -> tuple[list[TextVerdicts], bytes]:
    """The verdicts on each text of tests, and their bytes."""
    head, _, verdicts = payload.partition(b"\n")
    begun = [*_units(verdicts)]
    units = [*begun, *((0, 0, False),) * len(json.loads(head))]
    return [TextVerdicts(*unit, *text) for unit, text in zip(units, json.loads(head), strict=False)], verdicts


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
