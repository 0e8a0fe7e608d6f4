"""The host's verdict on what a program returned. The expected answer is seen here and nowhere inside the sandbox."""

import math
import re
from collections.abc import Callable, Sequence

from tasks.records import Result

TOLERANCE = 1e-6
"""Largest difference of a right answer: absolute below 1, relative to the expected answer above."""

_PLAIN_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,300}|[0-9]{1,3}(?:,[0-9]{3}){1,99})(?:\.[0-9]{1,300})?")


def is_right(result: Result, answer: float) -> bool:
    """Whether the program ended well and returned `answer`, within TOLERANCE.

    The value is an int, a float, or a text that is nothing but a plain number ("72", " 1,200.50 "). A bool, NaN,
    an infinity, a text with a unit, and any subclass of these types are wrong.
    """
    value = number_of(result)
    if value is None or not -1e300 < value < 1e300:  # an int beyond that has no float to subtract from
        return False
    return abs(value - answer) <= TOLERANCE * max(1.0, abs(answer))


def failure_reason(results: Sequence[Result]) -> str | None:
    """Why nobody knows what a workflow is worth: the error of its first `failed` result; None where all are known."""
    return next((result.error or "failed" for result in results if result.status == "failed"), None)


def solved_share(
    results: Sequence[Result], answers: Sequence[float], check: Callable[[Result, float], bool] = is_right
) -> float:
    """Share of the questions (problem and siblings) solved, in [0, 1], by the `check` of the environment.

    Raises ValueError where lengths differ.
    """
    if len(results) != len(answers) or not results:
        raise ValueError(f"{len(results)} results for {len(answers)} answers")
    return sum(map(check, results, answers)) / len(results)


def number_of(result: Result) -> int | float | None:
    """The number that a program returned; None where it did not end well or returned none."""
    value: object = result.value if result.status == "ok" else None
    if type(value) is int:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else None
    if type(value) is str and _PLAIN_NUMBER.fullmatch(value.strip()):
        return float(value.replace(",", ""))
    return None
