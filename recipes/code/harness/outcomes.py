"""Unit tests of code: what the zygote is sent for them, its verdicts, and the modules that code lacks."""

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from recipes.code.harness import wire
from recipes.code.harness.processes import TestProcesses
from tasks.params.sections import SandboxParams
from tasks.programs.sandbox import protocol
from tasks.programs.sandbox.determinism import Findings
from tasks.programs.sandbox.modules import MODULES
from tasks.programs.sandbox.run_program import clean_error, program_parts
from tasks.programs.sandbox.sandbox import Program, Sandbox, make_sandbox


def imported_modules(tree: ast.AST) -> Iterator[str]:
    """The modules that code imports, the outermost first, but for those in a `try`, which it can do without."""
    nodes = [tree]
    for part in nodes:  # which grows
        match part:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module
            case ast.Try():
                continue
            case node:
                nodes.extend(ast.iter_child_nodes(node))


def missing_modules(sandbox: Sandbox, modules: Iterable[str]) -> set[str]:
    """Those of these modules that a program cannot import."""
    tried = sorted(set(modules) - set(MODULES))
    programs = [Program(f"import {module}\ndef solve(problem): return 1\n", ("",)) for module in tried]
    results: Sequence[str] = [str(result.error) for (result,) in sandbox.run(programs)] if tried else []
    return {name for name, error in zip(tried, results, strict=True) if error.startswith("ModuleNotFoundError: ")}


def reason_of(module: str) -> str:
    """Why code that imports this module passes no test, in words."""
    return f"module {module} is not available in the sandbox; available: {', '.join(MODULES)}"


@dataclass(frozen=True)
class UnitTests:
    """Tests of a function: texts of asserts, a function `check`, or test functions and classes.

    `prompt`: what the code continues, "" if it stands alone; `setup`: run before the tests. `counts`: how many tests
    each text has, where that is known from a run of them (recipes/code/problem_check.py).
    """

    entry_point: str
    texts: tuple[str, ...]
    prompt: str = ""
    setup: str = ""
    counts: tuple[int | None, ...] = ()

    @classmethod
    def of(cls, answer: Mapping[str, Any], kind: Literal["shown", "hidden"]) -> "UnitTests":
        """Those of a problem's answer (recipes/code/evaluator.py)."""
        counts = tuple(answer.get("counts") or ()) if kind == "hidden" else ()
        return cls(answer["entry_point"], tuple(answer[kind]), answer["prompt"], answer["setup"], counts)


LATE = "out of time"
"""Ending of an outcome."""

_WITH_VERDICTS = (protocol.ENDINGS, protocol.TIMEOUT)


class Outcome(NamedTuple):
    """Tests that passed, of all; `ending`: why the others were not run, "" if they were."""

    passed: int
    total: int
    ending: str = ""


class TextVerdicts(NamedTuple):
    """Verdicts on a text of tests, and what its syntax says: see CountedTests."""

    passed: int
    failed: int
    ended: bool
    tests: int
    is_exact: bool
    faults: list[str]


class OutcomeRequest(NamedTuple):
    """What the zygote is sent; `may_differ`: the code might do something else in another run; what it imports."""

    process: bytes  # SHARED or OWN
    tests: bytes
    may_differ: bool
    modules: tuple[str, ...]


def make_test_sandbox(params: SandboxParams) -> Sandbox:
    """A sandbox that runs unit tests, with the settings of `params.yaml`."""
    return make_sandbox(params, service=TestProcesses)


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
    return _with_missing_modules(sandbox, requests, outcomes)


def _with_missing_modules(
    sandbox: Sandbox, requests: Sequence[OutcomeRequest], outcomes: Sequence[Outcome | None]
) -> list[Outcome | None]:
    """The outcomes; those of code that failed without another reason name a module that it lacks."""
    imported = [
        request.modules if outcome and outcome.passed < outcome.total and not outcome.ending else ()
        for request, outcome in zip(requests, outcomes, strict=True)
    ]
    missing = missing_modules(sandbox, {module for modules in imported for module in modules})
    lacking = [next((module for module in modules if module in missing), None) for modules in imported]
    return [
        outcome._replace(ending=reason_of(module)) if outcome and module else outcome
        for outcome, module in zip(outcomes, lacking, strict=True)
    ]


def first_failures(sandbox: Sandbox, jobs: Sequence[tuple[str, UnitTests]]) -> list[tuple[str, str]]:
    """The line of the first test that each (code, tests) fails, and the exception's; "" of what is not known."""
    answers = _ask(sandbox, [_request(code, tests, explains=True) for code, tests in jobs])
    return [_told(payload) if kind in _WITH_VERDICTS else ("", "") for kind, payload in answers]


def text_verdicts(sandbox: Sandbox, jobs: Sequence[tuple[str, UnitTests]]) -> list[list[TextVerdicts]]:
    """The verdicts on each text of tests, of each (code, tests); [] if they exceeded the limits of the sandbox."""
    answers = _ask(sandbox, [_request(code, tests) for code, tests in jobs])
    return [_read(payload)[0] if kind in _WITH_VERDICTS and payload else [] for kind, payload in answers]


def _outcomes(
    sandbox: Sandbox, jobs: Sequence[tuple[str, UnitTests]], requests: Sequence[OutcomeRequest], again: bool = False
) -> list[Outcome | None]:
    answers = _ask(sandbox, requests, again)
    return [_outcome(tests, *answer) for (_, tests), answer in zip(jobs, answers, strict=True)]


def _ask(sandbox: Sandbox, requests: Sequence[OutcomeRequest], again: bool = False) -> list[tuple[bytes, bytes]]:
    """The zygotes' (kind, verdicts); a program that did not end well among others is tested again in its own process.

    `again`: a second run, in other zygotes.
    """
    answers = sandbox.ask_service([(request.process, request.tests) for request in requests], again)
    alone = [i for i, (kind, _) in enumerate(answers) if kind == wire.AGAIN]
    for i, answer in zip(
        alone, sandbox.ask_service([(wire.OWN, requests[i].tests) for i in alone], again), strict=True
    ):
        answers[i] = answer
    return answers


def _request(code: str, tests: UnitTests, explains: bool = False) -> OutcomeRequest:
    program = (tests.prompt, code, tests.entry_point, tests.setup)
    tree = _tree(program)
    findings = Findings(tree) if tree else None
    may_differ, may_keep_state = (
        (findings.may_differ, findings.may_keep_state) if findings else (True, True)
    )  # in doubt
    modules = tuple(imported_modules(tree)) if tree else ()
    texts = json.dumps([tests.prompt, tests.setup, tests.entry_point, tests.texts, explains]).encode()
    frames = protocol.pack(wire.TESTS, texts) + protocol.pack(wire.PROGRAM, json.dumps(program).encode())
    return OutcomeRequest(wire.OWN if may_differ or may_keep_state else wire.SHARED, frames, may_differ, modules)


def _tree(program: tuple[str, str, str, str]) -> ast.Module | None:
    """The parts of a program as one; None if they are not Python."""
    try:
        parts = program_parts(*program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return ast.Module([node for part in parts for node in part.body], [])


def _outcome(tests: UnitTests, kind: bytes, payload: bytes) -> Outcome | None:
    """The outcome from the bytes of the child with the tests."""
    if kind == protocol.DIED:
        return None
    if kind not in _WITH_VERDICTS or not payload:
        total = sum(count or 1 for count in tests.counts) or len(tests.texts)
        return Outcome(0, total, "out of memory" if kind == wire.MEMORY else "killed")
    units, verdicts = _read(payload)
    known = tests.counts or (None,) * len(units)
    pairs = [_passed(unit, count) for unit, count in zip(units, known, strict=True)]
    passed, total = (sum(pair[column] for pair in pairs) for column in (0, 1))  # of no texts too
    late = LATE if kind == protocol.TIMEOUT else "it ended" if wire.DEAD in verdicts else ""
    return Outcome(passed, total, late if passed < total else "")


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
    head, verdicts, _ = wire.parts_of_verdicts(payload)
    begun = [*_units(verdicts)]
    units = [*begun, *((0, 0, False),) * len(json.loads(head))]
    return [TextVerdicts(*unit, *text) for unit, text in zip(units, json.loads(head), strict=False)], verdicts


def _told(payload: bytes) -> tuple[str, str]:
    """The first failure, of which the exception's text may be by the program under test."""
    with suppress(ValueError):  # it was killed before it had written all, or anything
        line, error = json.loads(wire.parts_of_verdicts(payload)[2])
        return line, clean_error(error)
    return "", ""


def _units(verdicts: bytes) -> list[tuple[int, int, bool]]:
    """(passed, failed, whether it ran to its end) of each text of tests that was begun."""
    parts = re.split(b"([%b%b])" % (wire.END, wire.ABORTED), verdicts)
    texts = zip(parts[::2], [*parts[1::2], b""], strict=True)
    return [(text.count(wire.PASSED), text.count(wire.FAILED), end == wire.END) for text, end in texts]
