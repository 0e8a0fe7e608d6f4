"""Evaluator `unit_tests`: the share of hidden unit tests that code passes.

The tests are run where the code is, in the sandbox (tasks/environments/runner.py); what is scored here is the verdict,
which counts hidden and shown tests apart: rewards and pass@k go by the hidden ones, search by the shown ones.
"""

import ast
import json
import re
import warnings
from typing import Any

from tasks.evaluators.number import Value, kind_of
from tasks.records import UNIT_TESTS, Answer, Problem, Result

_VERDICT = re.compile(r"(\d+)/(\d+) hidden, (\d+)/(\d+) shown(?:, [a-z ]+)?")
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
        given = answer.get(name) or []
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{name}: {kind_of(given)}, not a list of texts")
        for text in [*texts, parsed["setup"]]:
            _check_python(name, text)
        parsed[name] = texts
    if not parsed["hidden"]:
        raise ValueError("no test is hidden; add one that is not shown")
    return parsed


def score(value: Value, answer: Answer) -> float:  # noqa: ARG001 (the verdict is on this answer's tests)
    """The share of the hidden tests that passed, by a verdict of `verdict`; 0 for any other value."""
    counts = _counts(value)
    return counts[0] / counts[1] if counts else 0.0


def shown_share(result: Result) -> float:
    """The share of the shown tests that passed: all that search may see. 0 without shown tests."""
    counts = _counts(result.value) if result.status == "ok" else None
    return counts[2] / counts[3] if counts and counts[3] else 0.0


def without_hidden(result: Result) -> Result:
    """The result with the counts of the shown tests alone, for prompts."""
    counts = _counts(result.value)
    return result if counts is None else result.model_copy(update={"value": f"{counts[2]}/{counts[3]} shown"})


def verdict(hidden: tuple[int, int], shown: tuple[int, int], ending: str = "") -> str:
    """(passed, of) of both kinds as one value: `5/7 hidden, 2/2 shown, out of time`."""
    text = f"{hidden[0]}/{hidden[1]} hidden, {shown[0]}/{shown[1]} shown"
    return f"{text}, {ending}" if ending else text


def unit_tests_of(problem: Problem) -> str | None:
    """The unit tests of a problem as text, for `Program.tests`; None for other answers."""
    return json.dumps(problem.answer, sort_keys=True) if problem.evaluator == UNIT_TESTS else None


def _counts(value: Value | None) -> list[int] | None:
    found = _VERDICT.fullmatch(value) if isinstance(value, str) else None
    return [int(each) for each in found.groups()] if found and int(found[2]) else None


def _check_python(name: str, text: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{name}: not Python: {getattr(error, 'msg', None) or error}") from None
