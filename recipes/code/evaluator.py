"""Evaluator `unit_tests`: the share of hidden unit tests that code passes.

The tests are run where the code is, in the sandbox (judge.py); what is scored here is the verdict, which counts hidden
and shown tests apart: rewards and pass@k go by the hidden ones, search by the shown ones.
"""

import ast
import warnings
from typing import Any

from tasks.errors import GraftError
from tasks.evaluators.number import Value, kind_of
from tasks.evaluators.scores import Evaluator
from tasks.records.problems import Answer
from tasks.records.programs import CheckVerdict, Result

UNIT_TESTS = "unit_tests"
"""The name of the evaluator."""

_TEXTS = ("entry_point", "prompt", "setup", "solution")
_LISTS = ("shown", "hidden")


def parse(answer: Answer) -> Answer:
    """The tests as the record has them: `entry_point`, `prompt`, `setup`, `solution`, and lists `shown`, `hidden`.

    Raises ValueError for anything else, without a hidden test, and for tests that are not Python.
    """
    if not isinstance(answer, dict):
        raise ValueError(f"{kind_of(answer)}, not unit tests")
    parsed: dict[str, Any] = {name: answer.get(name) or "" for name in _TEXTS}
    for name in _TEXTS:
        if not isinstance(parsed[name], str):
            raise ValueError(f"{name}: {kind_of(answer[name])}, not a text")
    if not parsed["entry_point"].isidentifier():
        raise ValueError(f"entry_point: {parsed['entry_point']!r:.40} is no name of a function")
    for name in _LISTS:
        tests = answer.get(name) or []
        texts = [tests] if isinstance(tests, str) else tests
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{name}: {kind_of(tests)}, not a list of texts")
        for text in [*texts, parsed["setup"]]:
            _check_python(name, text)
        parsed[name] = texts
    if not parsed["hidden"]:
        raise ValueError("no test is hidden; add one that is not shown")
    return parsed


def score(value: Value | CheckVerdict, answer: Answer) -> float:  # noqa: ARG001 (the verdict is on this answer's tests)
    """The share of the hidden tests that passed. Raises GraftError for a value that is no verdict."""
    if not isinstance(value, CheckVerdict):
        raise GraftError(
            f"unit tests: {value!r:.40} is no verdict; the file that it is in is older than 2026-11-25: compute it "
            "again, with graft stage search@1 collect@1 for round 1"
        )
    return value.hidden_passed / value.hidden if value.hidden else 0.0


def shown_share(result: Result) -> float:
    """The share of the shown tests that passed: all that search may see. 0 without shown tests."""
    verdict = result.value
    return verdict.shown_passed / verdict.shown if isinstance(verdict, CheckVerdict) and verdict.shown else 0.0


def _check_python(name: str, text: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{name}: not Python: {getattr(error, 'msg', None) or error}") from None


EVALUATOR = Evaluator(parse, score, "the code of a Python function")
