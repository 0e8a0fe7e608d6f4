"""Comparison of a program's value with the expected number, on the host; the sandbox never has the answer."""

from collections.abc import Sequence

from tasks.evaluators.number import number_of_value, score
from tasks.records.problems import Answer
from tasks.records.programs import Result

FAILED_LIMIT = 0.2
"""Share of unknown results or rewards above which a stage stops: fewer may be chance, more have a cause."""


def is_right(result: Result, answer: Answer) -> bool:
    """Whether the program succeeded and returned the number `answer`; see tasks/evaluators/number.py."""
    value = result.value
    return result.status == "ok" and isinstance(value, int | float | str) and score(value, answer) == 1


def failure_reason(results: Sequence[Result]) -> str | None:
    """Why a workflow cannot be scored: the error of its first `failed` result; None if no result failed."""
    return next((result.error or "failed" for result in results if result.status == "failed"), None)


def number_of(result: Result) -> int | float | None:
    """The number that a program returned; None if it did not succeed or returned something else."""
    return number_of_value(result.value) if result.status == "ok" else None
