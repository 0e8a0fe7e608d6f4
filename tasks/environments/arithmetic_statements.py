"""Arithmetic statements in a text, `12 * 4 = 48`, and which of them are right.

A statement is an equals sign between two sides of which at least one is a calculation. The left side is the longest
one that ends at the sign, the right side the longest that begins there: numbers (also with thousands separators,
currency or percent signs), `+ - * / × ÷ · x` and parentheses. `5 + 3 = 8 - 2 = 6` are two statements, of which the
first is wrong. One that occurs several times counts once.

It is right if both sides have one value. A number with decimals or a percentage may be rounded, `10 / 3 = 3.33`; whole
numbers must be exact. A division by 0 is wrong.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from tasks.programs.operators.builtin import calculate

NEUTRAL = 0.5
"""Value of a text without statements: more than that of wrong ones, less than that of right ones."""

MAX_SIDE = 200
"""Characters on each side of the sign that are read."""

_EQUALS = re.compile(r"(?<![<>=!:])=(?!=)")
_SIGNS = str.maketrans("×·÷−–", "**/--")
_TIMES = re.compile(r"(?<=[0-9)]) ?[xX] ?(?=[0-9(])")
_TOKEN = re.compile(
    r"(?<![\w.])[$€£]?(?P<number>(?:[0-9]{1,3}(?:,[0-9]{3})++(?![0-9])|[0-9]++)(?:\.[0-9]++)?|\.[0-9]++)"
    r"(?P<percent> ?%)?|(?P<sign>[-+*/()])"
)


class _Side(NamedTuple):
    text: str  # as `calculate` reads it
    calculation: bool  # more than a number
    rounding: float  # by which it may differ from the exact value


def right_share(text: str) -> float:
    """Share of the distinct statements of a text that are right, in [0, 1]; NEUTRAL without any."""
    verdicts = statements(text)
    return sum(verdicts.values()) / len(verdicts) if verdicts else NEUTRAL


def statements(text: str) -> dict[str, bool]:
    """Each distinct statement, without blanks, in the order of the text, and whether it is right."""
    verdicts: dict[str, bool] = {}
    for line in _TIMES.sub("*", text.translate(_SIGNS)).splitlines():
        for before, after in pairwise(_EQUALS.split(line)):
            left, right = _left(before[-MAX_SIDE:]), _right(after[:MAX_SIDE])
            if left and right and (left.calculation or right.calculation):
                verdicts.setdefault(f"{left.text}={right.text}", _is_right(left, right))
    return verdicts


def _left(piece: str) -> _Side | None:
    """The longest calculation or number that ends the piece. A minus before a blank is a bullet or belongs to words."""
    run: list[re.Match[str]] = []
    end = len(piece)
    for token in reversed(list(_TOKEN.finditer(piece))):
        if piece[token.end() : end].strip():
            break
        run.insert(0, token)
        end = token.start()
    starts = (i for i, token in enumerate(run) if token["sign"] not in ("-", "+") or not _blank_after(piece, token))
    return _first_valid(run[start:] for start in starts)


def _right(piece: str) -> _Side | None:
    """The longest calculation or number that begins the piece."""
    run: list[re.Match[str]] = []
    start = 0
    for token in _TOKEN.finditer(piece):
        if piece[start : token.start()].strip():
            break
        run.append(token)
        start = token.end()
    return _first_valid(run[:end] for end in range(len(run), 0, -1))


def _blank_after(piece: str, token: re.Match[str]) -> bool:
    return piece[token.end() : token.end() + 1].isspace()


def _first_valid(runs: Iterable[Sequence[re.Match[str]]]) -> _Side | None:
    for run in runs:
        text = " ".join(map(_plain, run))
        try:
            calculate(text)
        except ValueError:
            continue
        except ZeroDivisionError:
            pass
        single = [token for token in run if token["number"]] if len(run) <= 2 else []
        return _Side(text.replace(" ", ""), not single, _rounding(single[0]) if single else 0.0)
    return None


def _plain(token: re.Match[str]) -> str:
    if token["sign"]:
        return token["sign"]
    number = token["number"].replace(",", "")
    return f"({number} / 100)" if token["percent"] else number


def _rounding(number: re.Match[str]) -> float:
    """Half a unit of its last decimal; 0 for a whole number."""
    decimals = len(number["number"].partition(".")[2]) + (2 if number["percent"] else 0)
    return 0.5 * 10.0**-decimals if decimals else 0.0


def _is_right(left: _Side, right: _Side) -> bool:
    try:
        first, second = calculate(left.text), calculate(right.text)
    except ZeroDivisionError:
        return False
    return abs(first - second) <= max(left.rounding, right.rounding) + 1e-9 * max(1.0, abs(first), abs(second))
