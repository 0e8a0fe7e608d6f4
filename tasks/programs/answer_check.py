"""Comparison of a program's value with the expected answer, on the host; the sandbox never has the answer."""

import math
import re
from collections.abc import Callable, Sequence

from tasks.records import Result

TOLERANCE = 1e-6
"""Tolerance: absolute for expected answers below 1, relative above."""

_PLAIN_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,300}|[0-9]{1,3}(?:,[0-9]{3}){1,99})(?:\.[0-9]{1,300})?")


def is_right(result: Result, answer: float) -> bool:
    """Whether the program succeeded and returned `answer`, within TOLERANCE.

    The value is an int, a float, or a text that is a plain number ("72", " 1,200.50 "). A bool, NaN, an infinity, a
    text with a unit, and any subclass of these types are wrong.
    """
    value = number_of(result)
    if value is None or not -1e300 < value < 1e300:  # a larger int has no float
        return False
    return abs(value - answer) <= TOLERANCE * max(1.0, abs(answer))


def failure_reason(results: Sequence[Result]) -> str | None:
    """Why a workflow cannot be scored: the error of its first `failed` result; None if no result failed."""
    return next((result.error or "failed" for result in results if result.status == "failed"), None)


def solved_share(
    results: Sequence[Result], answers: Sequence[float], check: Callable[[Result, float], bool] = is_right
) -> float:
    """Share of the questions (problem and siblings) solved, in [0, 1], by the environment's `check`.

    Raises ValueError if the lengths differ.
    """
    if len(results) != len(answers) or not results:
        raise ValueError(f"{len(results)} results for {len(answers)} answers")
    return sum(map(check, results, answers)) / len(results)


def number_of(result: Result) -> int | float | None:
    """The number that a program returned; None if it did not succeed or returned something else."""
    value: object = result.value if result.status == "ok" else None
    if type(value) is int:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else None
    if type(value) is str and _PLAIN_NUMBER.fullmatch(value.strip()):
        return float(value.replace(",", ""))
    return None
