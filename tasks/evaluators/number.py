"""Evaluator `number`: the number that an answer is, and its comparison with a returned value."""

import math
import re
from typing import Any

from tasks.records import Answer

Value = int | float | str
"""A value that a workflow returned or that was read from a completion."""

TOLERANCE = 1e-6
"""Tolerance: absolute for expected answers below 1, relative above."""

LARGEST = 10**15
"""Largest absolute value of an answer; beyond it floats are no longer exact."""

_PLAIN_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,300}|[0-9]{1,3}(?:,[0-9]{3}){1,99})(?:\.[0-9]{1,300})?")
_FINAL = re.compile(r"####[ \t]*([^\n]*)")
_DEGREES = re.compile(r"\s*(?:\^\s*\{?\s*\\circ\s*\}?|\\degree|°)\Z")
_NUMBER = re.compile(r"[-+]?\$?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?", re.ASCII)


def parse(answer: Answer) -> int | float:
    """The number of an `answer` field.

    A JSON number, a text that is a number ("72", "-3.5", "1,234", "$12"), or GSM8K's text with the number after the
    last ####. "72%" is refused, as it could mean 72 or 0.72. Raises ValueError for anything else.
    """
    if isinstance(answer, bool) or not isinstance(answer, (int, float, str)):
        raise ValueError(f"{kind_of(answer)}, not a number")
    if isinstance(answer, str):
        return _within(_number_in(answer))
    return _within(answer)


def score(value: Value, answer: Answer) -> float:
    """1 if the value is `answer` within TOLERANCE, else 0.

    The value is an int, a float, or a text that is a plain number ("72", " 1,200.50 "). A bool, NaN, an infinity, a
    text with a unit, and any subclass of these types score 0.
    """
    number = number_of_value(value)
    if number is None or not -1e300 < number < 1e300:  # a larger int has no float
        return 0.0
    assert isinstance(answer, (int, float))  # Problem checks it
    return float(abs(number - answer) <= TOLERANCE * max(1.0, abs(answer)))


def number_of_value(value: object) -> int | float | None:
    """The finite number that a value is, or that it is the plain text of; else None."""
    if type(value) is int:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else None
    if type(value) is str and _PLAIN_NUMBER.fullmatch(value.strip()):
        return float(value.replace(",", ""))
    return None


def kind_of(value: Any) -> str:
    """The type of a JSON value in words."""
    kinds = {bool: "true or false", dict: "an object", list: "a list", str: "a text", type(None): "null"}
    return kinds.get(type(value), "a number")


def shorten(text: str) -> str:
    """A text in quotes, at most 40 characters of it."""
    return repr(text if len(text) <= 40 else text[:37] + "…")


def _number_in(text: str) -> int | float:
    finals = _FINAL.findall(text)
    candidate = _DEGREES.sub("", (finals[-1] if finals else text).strip())
    if candidate.endswith("%"):
        raise ValueError(f"{shorten(candidate)} could mean the percentage or the fraction")
    if not _NUMBER.fullmatch(candidate):
        raise ValueError(f"{shorten(candidate)} is no number")
    plain = candidate.replace(",", "").replace("$", "")
    return float(plain) if "." in plain or len(plain) > 20 else int(plain)


def _within(value: int | float) -> int | float:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not finite")
    if abs(value) > LARGEST:
        raise ValueError("beyond ±1e15, where numbers are no longer exact")
    return value
