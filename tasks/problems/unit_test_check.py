"""Check of the unit tests of a file: empty programs fail them, and its solutions pass.

Tests that never run would otherwise count as passed by any program, and tests that no program can pass as failed. The
run also counts the tests: those in a loop are not known from the text, and a program that ends at the first test that
it fails would have passed all of the others.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from tasks.errors import GraftError
from tasks.params.sections import SandboxParams
from tasks.programs.sandbox.sandbox import SANDBOX_DIED, Sandbox, make_sandbox
from tasks.programs.sandbox.unit_tests.outcomes import (
    LATE,
    Outcome,
    TextVerdicts,
    UnitTests,
    run_unit_tests,
    text_verdicts,
)
from tasks.records import UNIT_TESTS, Problem

Texts = Sequence[TextVerdicts]
"""Verdicts of one program, for each text of tests."""

_FORMS = "asserts, a function check(candidate), functions test_… or a unittest.TestCase"
_EMPTY = ("", "def {}(*args, **kwargs): pass\n", "def {0}(*args, **kwargs): return {0}\n")
"""Programs that do nothing: without the function, with one that returns None, and one that returns an object."""


def check_unit_tests(
    problems: Mapping[str, Problem], params: SandboxParams
) -> tuple[dict[str, Problem], dict[str, str]]:
    """(the problems with the numbers of their tests, why others are refused), by place; those of no code as they are.

    Raises GraftError if the sandbox does not start, or dies.
    """
    answers: dict[str, Any] = {p: problem.answer for p, problem in problems.items() if problem.evaluator == UNIT_TESTS}
    refused: dict[str, str] = {}
    if answers:
        with make_sandbox(params) as sandbox:
            refused |= _count(sandbox, answers)
            refused |= _try_solutions(sandbox, {p: a for p, a in answers.items() if a["solution"] and p not in refused})
    counted = {
        place: problem.model_copy(update={"answer": answers[place]}) if place in answers else problem
        for place, problem in problems.items()
        if place not in refused
    }
    return counted, {place: refused[place] for place in problems if place in refused}


def _count(sandbox: Sandbox, answers: dict[str, Any]) -> dict[str, str]:
    """Add `counts` to answers, the number of tests in each hidden text, None if unknown; why others are refused."""
    jobs = [
        (code, UnitTests.of(answer, "hidden"))
        for answer in answers.values()
        for code in (*(code.format(answer["entry_point"]) for code in _EMPTY), answer["solution"])
    ]
    verdicts = iter(text_verdicts(sandbox, jobs))
    refused = {}
    for place, answer in answers.items():
        empty, none, some, solved = islice(verdicts, 4)
        if reason := _reason(empty, none, some):
            refused[place] = reason
        run = solved if answer["solution"] else none
        answers[place] = answer | {"counts": [unit.passed + unit.failed if unit.ended else None for unit in run]}
    return refused


def _reason(empty: Texts, none: Texts, some: Texts) -> str | None:
    """Why tests cannot be used, from the verdicts on the programs that do nothing; None if they can."""
    if not (empty and none and some):
        return "tests: they exceed the limits whatever the program does; remove the line"
    faults = [fault for unit in none for fault in unit.faults]
    if faults:
        return f"tests: {faults[0]}"
    if not any(unit.tests for unit in none):
        return f"tests: none in them would run; write {_FORMS}"
    if all(map(_passes, empty)) or all(map(_passes, none)):
        return f"tests: a program that does nothing passes them; write {_FORMS} that fail then"
    if any(one.tests and _passes(one) and _passes(other) for one, other in zip(none, some, strict=True)):
        return "tests: one of them passes whatever the function returns; remove it"
    return None


def _try_solutions(sandbox: Sandbox, answers: Mapping[str, Any]) -> dict[str, str]:
    jobs = [(answer["solution"], UnitTests.of(answer, "hidden")) for answer in answers.values()]
    outcomes = run_unit_tests(sandbox, jobs)
    reasons = {place: _failure(outcome) for place, outcome in zip(answers, outcomes, strict=True)}
    return {place: reason for place, reason in reasons.items() if reason}


def _failure(outcome: Outcome | None) -> str | None:
    if outcome is None:
        raise GraftError(f"unit tests: {SANDBOX_DIED}; run: graft doctor")
    if outcome.passed == outcome.total:
        return None
    ending = f" ({outcome.ending})" if outcome.ending else ""
    remedy = "raise sandbox.seconds, or remove the line" if outcome.ending == LATE else "correct it, or remove the line"
    return f"solution: passes {outcome.passed} of the {outcome.total} hidden tests{ending}; {remedy}"


def _passes(unit: TextVerdicts) -> bool:
    return unit.ended and not unit.failed
