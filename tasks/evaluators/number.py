"""Evaluator `number`: the number that an answer is, and its comparison with a returned value."""

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from tasks.records.problems import Answer

Value = int | float | str
"""A value that a workflow returned or that was read from a completion."""

TOLERANCE = 1e-6
"""Relative tolerance for fractions and rounded floats."""

EXACT_DIGITS = 12
"""Most significant digits of a decimal that is compared exactly; rounded values such as 1/3 have about 16."""

LARGEST = 10**15
"""Largest absolute value of an answer; beyond it floats are no longer exact."""

_PLAIN_NUMBER = re.compile(
    r"[+-]?(?:[0-9]{1,300}|[0-9]{1,3}(?:,[0-9]{3}){1,99})(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,3})?"
)
_FINAL = re.compile(r"####[ \t]*([^\n]*)")
_DEGREES = re.compile(r"\s*(?:\^\s*\{?\s*\\circ\s*\}?|\\degree|°)\Z")
_NUMBER = re.compile(r"[-+]?\$?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d{1,3})?", re.ASCII)
_BOUND = 10**300  # a larger int has no float


class Exact(NamedTuple):
    """An exact number; `short`: it may be compared exactly."""

    number: Fraction
    short: bool


def parse(answer: Answer) -> int | float:
    """The number of an `answer` field.

    A JSON number, a text that is a number ("72", "-3.5", "1,234", "$12", "1.6e-19"), or GSM8K's text with the number
    after the last ####. "72%" is refused, as it could mean 72 or 0.72. Raises ValueError for anything else.
    """
    number = number_or_text(answer, "a number")
    return _within(_number_in(number) if isinstance(number, str) else number)


def score(value: Value, answer: Answer) -> float:
    """1 if the value is the same number as `answer`, else 0; see `are_same`.

    The value is an int, a float, or a text that is a plain number ("72", " 1,200.50 "). A bool, NaN, an infinity, a
    text with a unit, and any subclass of these types score 0.
    """
    predicted, expected = exact(number_of_value(value)), exact(answer)
    return float(predicted is not None and expected is not None and are_same(predicted, expected))


def are_same(predicted: Exact, expected: Exact) -> bool:
    """True if both are short and equal, or else within TOLERANCE times the expected number: 0 equals 0 alone.

    Integers and decimals of up to EXACT_DIGITS digits are short: 0.5 is 1/2 and nothing near it. Others are fractions
    and rounded floats: 1/3 is 0.3333333333333.
    """
    if predicted.short and expected.short:
        return predicted.number == expected.number
    return abs(predicted.number - expected.number) <= Fraction(TOLERANCE) * abs(expected.number)


def exact(value: object) -> Exact | None:
    """The exact number that an int or float is; None unless it is finite and below 1e300."""
    if type(value) is int:
        return Exact(Fraction(value), True) if abs(value) < _BOUND else None
    if type(value) is not float or not math.isfinite(value) or abs(value) >= _BOUND:
        return None
    decimal = Decimal(repr(value))
    whole = value.is_integer() and abs(value) < LARGEST
    return Exact(Fraction(decimal), whole or len(decimal.normalize().as_tuple().digits) <= EXACT_DIGITS)


def number_of_value(value: object) -> int | float | None:
    """The finite number that a value is, or that it is the plain text of; else None."""
    if type(value) is int:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else None
    if type(value) is str and _PLAIN_NUMBER.fullmatch(value.strip()):
        number = float(value.replace(",", ""))
        return number if math.isfinite(number) else None
    return None


def number_or_text(answer: Answer, wanted: str) -> Value:
    """The answer. Raises ValueError for any other kind: "a list, not `wanted`"."""
    if isinstance(answer, bool) or not isinstance(answer, int | float | str):
        raise ValueError(f"{kind_of(answer)}, not {wanted}")
    return answer


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
    return int(plain) if plain.lstrip("+-").isdigit() and len(plain) <= 20 else float(plain)


def _within(value: int | float) -> int | float:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not finite")
    if abs(value) > LARGEST:
        raise ValueError("beyond ±1e15, where numbers are no longer exact")
    return value
