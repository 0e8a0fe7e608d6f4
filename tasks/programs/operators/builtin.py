"""The operators that a workflow may call. Standard library only, since the sandbox's zygote imports this file.

All are pure, deterministic and bounded in time: an input that is too long or too big raises ValueError.
"""

import ast
import math
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

MAX_TEXT = 20_000
"""Longest text that `numbers` reads, in characters."""

MAX_EXPRESSION = 500
"""Longest expression that `calculate` reads, in characters."""

MAX_BITS = 4096
"""Largest integer in `calculate`, in bits."""

MAX_DIGITS = 400
"""Longest number that `compare` reads, in characters."""

_UNITS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_TEENS = ["ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_PARTS = ["half", "third", "quarter", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"]
_MANY = [f"{part}s" if part != "half" else "halves" for part in _PARTS]

_SMALL = (
    {word: value for value, word in enumerate(_UNITS, start=1)}
    | {word: value for value, word in enumerate(_TEENS, start=10)}
    | {word: 10 * value for value, word in enumerate(_TENS, start=2)}
)
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000}
_PART_SIZES = dict(zip(_PARTS + _MANY, 2 * [2, 3, 4, 4, 5, 6, 7, 8, 9, 10], strict=True))
_SINGLE = {
    "half": 0.5,
    **dict.fromkeys(("twice", "double", "doubles", "doubled"), 2),
    **dict.fromkeys(("thrice", "triple", "triples", "tripled"), 3),
    **dict.fromkeys(("dozen", "dozens"), 12),
}

SEPARATOR = "\n\nQuestion: "
"""Between a context and the question."""


def _any(words: Iterable[str]) -> str:
    return "(?:" + "|".join(words) + ")"


# Spaces are in brackets because the pattern below is verbose, where a plain one is ignored.
# Below hundred: "seven", "twelve", "forty", "twenty-five". Below thousand: "hundred", "three hundred and forty-two".
_TENS_UNITS = rf"(?:{_any(_TENS)}(?:[ -]{_any(_UNITS)})?|{_any(_TEENS)}|{_any(_UNITS)})\b"
_HUNDREDS = rf"(?:(?:{_any(_UNITS)}[ -])?hundred\b(?:(?:[ ]and)?[ ]{_TENS_UNITS})?|{_TENS_UNITS})"
_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+"

_QUANTITY = re.compile(
    rf"""
    (?<![\w.])                                                    # never inside a word, nor in the middle of a number
    (?:
      (?P<ordinal>[0-9]+(?:st|nd|rd|th)\b)                        # 3rd: a place, not a quantity
    | (?P<share>(?:one[ -]{_any(_PARTS)}|(?!one){_any(_UNITS)}[ -]{_any(_MANY)})\b
        |an?\ {_any(_PARTS[1:])}(?=\ of\b))                       # two thirds, one-half, a quarter of
    | (?<!/)(?:(?P<whole>[0-9]+)\ )?(?P<top>[0-9]+)/(?P<bottom>[0-9]+)(?![0-9/.])   # 1 1/2, 3/4; not 5/8/2020
    | (?P<digits>{_DIGITS})
    | (?P<words>{_HUNDREDS}|(?:thousand|million)\b)
    | (?P<single>{_any(_SINGLE)}\b)
    )
    (?P<scale>[ ](?:hundred|thousand|million)\b)?                 # 5 million, two thousand
    (?P<and_half>[ ]and\ a\ half\b)?                              # two and a half
    (?P<percent>[ ]?%|[ -]percent\b)?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NUMBER = re.compile(r"\s*([+-]?)\$?(?:(\d+)[ ]+)?(\d[\d,]*(?:\.\d*)?|\.\d+)(?:\s*/\s*(\d+))?\s*(%?)\s*", re.ASCII)
_SYMBOLS = str.maketrans({"½": " 1/2", "¼": " 1/4", "¾": " 3/4", "\u00a0": " ", "\u2011": "-"})


def numbers(text: str) -> list[int | float]:
    """The quantities of a text from left to right: numbers("3 pens at $1.50, 20% off") is [3, 1.5, 0.2].

    - digits: 12, 1,200, 3.5, $15, 5kg; no signs (a hyphen is read as one); not inside words (A4), no ordinals (3rd);
    - fractions: 3/4 is 0.75, 1 1/2 and 1½ are 1.5; percentages: 20% and 20 percent are 0.2;
    - words: two … ninety-nine, (three) hundred (and forty), 5 thousand, million; never a lone "one" or "a";
    - shares: half is 0.5, two thirds, one-quarter, a third of; two and a half is 2.5;
    - twice and double are 2, triple 3, dozen 12 ("two dozen" is [2, 12]).

    Whole words, any case. An int where it is written whole, a float otherwise. More than 30 digits in a row are
    skipped. Raises TypeError for anything but a text, ValueError beyond MAX_TEXT characters.
    """
    if not isinstance(text, str):
        raise TypeError(f"numbers() reads a text, not {type(text).__name__}")
    if len(text) > MAX_TEXT:
        raise ValueError(f"numbers() reads at most {MAX_TEXT} characters")
    return read_quantities(text)[0]


def read_quantities(text: str) -> tuple[list[int | float], list[str], list[str]]:
    """The values of `numbers`, [Q], each as written, [Q], and the text before, between and after them, [Q + 1].

    As written "$1.5" is "1.5", ½ is "1/2". Not an operator.
    """
    text = text.translate(_SYMBOLS)
    values: list[int | float] = []
    written: list[str] = []
    between: list[str] = []
    begin = 0
    for match in _QUANTITY.finditer(text):
        value = _value(match)
        if value is not None:
            values.append(value)
            written.append(match[0])
            between.append(text[begin : match.start()])
            begin = match.end()
    return values, written, [*between, text[begin:]]


def calculate(expression: str) -> int | float:
    """The value of an arithmetic expression on + - * / // % ** and parentheses: calculate("2 * (3 + 4)") is 14.

    Raises ValueError for anything else in it, beyond MAX_EXPRESSION characters or MAX_BITS bits, and where the
    result is not a finite real number; ZeroDivisionError as Python does.
    """
    if not isinstance(expression, str):
        raise TypeError(f"calculate() reads a text, not {type(expression).__name__}")
    if len(expression) > MAX_EXPRESSION:
        raise ValueError(f"calculate() reads at most {MAX_EXPRESSION} characters")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError("calculate() reads arithmetic only") from None
    return _evaluate(tree.body)


def majority(answers: Iterable[Any]) -> Any:
    """The most frequent of the answers; of equally frequent ones the first: majority([2, 3, 3]) is 3.

    Raises ValueError without answers.
    """
    counts: dict[Any, int] = {}
    for answer in answers:
        counts[answer] = counts.get(answer, 0) + 1
    if not counts:
        raise ValueError("majority() needs at least one answer")
    return max(counts, key=counts.__getitem__)  # max keeps the first of equals, a dict the order of arrival


def compare(left: int | float | str, right: int | float | str) -> int:
    """Which of two quantities is larger: -1, 0 or 1 as left is less, equal or more; compare("3/4", 0.7) is 1.

    Numbers, or texts that are numbers ("1,200", "3/4", "75%"). Equal within a millionth, the tolerance of answers.
    Raises ValueError for anything but a finite number, TypeError for other types.
    """
    first, second = read_number(left), read_number(right)
    if abs(first - second) * 1_000_000 <= abs(second):
        return 0
    return -1 if first < second else 1


def read_number(value: object) -> Fraction:
    """The exact value of a number, or of a text that is one: "1,200", "$2.50", "3/4", "1 1/2", "75%". Not an operator.

    A float counts as its printed decimal. Raises TypeError for other types, ValueError for anything that is not a
    finite number or is longer than MAX_DIGITS.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError(f"a number or a text is needed, not {type(value).__name__}")
    if isinstance(value, int):
        if value.bit_length() > 4 * MAX_DIGITS:
            raise ValueError("too long a number")
        return Fraction(value)
    text = repr(value) if isinstance(value, float) else value
    if len(text) > MAX_DIGITS:
        raise ValueError("too long a number")
    if isinstance(value, float):
        return Fraction(text)  # ValueError for nan and inf
    match = _NUMBER.fullmatch(text)
    if not match or (match[2] and not match[4]) or (match[4] and int(match[4]) == 0):
        raise ValueError(f"{text[:40]!r} is no number")
    exact = Fraction(match[3].replace(",", "")) / int(match[4] or 1) + int(match[2] or 0)
    return (-exact if match[1] == "-" else exact) / (100 if match[5] else 1)


def context(problem: str) -> str:
    """The text that a problem brings in front of its question, "" if none: ask(f"Shorten this: {context(problem)}").

    The question itself is problem[len(context(problem)):]. Raises TypeError for anything but a text.
    """
    if not isinstance(problem, str):
        raise TypeError(f"context() reads a text, not {type(problem).__name__}")
    return problem.rpartition(SEPARATOR)[0]


def with_context(text: str, question: str) -> str:
    """The question with a context in front; without one where `text` is blank."""
    return f"{text.strip()}{SEPARATOR}{question}" if text.strip() else question


def without_context(problem: str) -> str:
    """The question alone, for people."""
    return problem.rpartition(SEPARATOR)[2]


OPERATORS: dict[str, Callable[..., Any]] = {
    "numbers": numbers,
    "calculate": calculate,
    "majority": majority,
    "compare": compare,
    "context": context,
}
"""Name → function, in the order of listing."""


def _value(match: re.Match[str]) -> int | float | None:
    """The number of one match of _QUANTITY; None if it is not a quantity."""
    value = _bare_value(match)
    if value is None:
        return None
    if match["scale"]:
        value *= _SCALES[match["scale"].strip().lower()]
    if match["and_half"]:
        value += 0.5
    return value / 100 if match["percent"] else value


def _bare_value(match: re.Match[str]) -> int | float | None:
    if max(map(len, re.findall("[0-9]+", match[0])), default=0) > 30 or match["ordinal"]:
        return None
    if match["share"]:
        count, part = re.split("[ -]", match["share"].lower())
        return _SMALL.get(count, 1) / _PART_SIZES[part]
    if match["top"]:
        bottom = int(match["bottom"])
        return int(match["whole"] or 0) + int(match["top"]) / bottom if bottom else None
    if match["digits"]:
        plain = match["digits"].replace(",", "")
        return float(plain) if "." in plain else int(plain)
    if match["single"]:
        return _SINGLE[match["single"].lower()]
    lone_one = match["words"].lower() == "one" and not match["scale"] and not match["and_half"] and not match["percent"]
    return None if lone_one else _word_value(match["words"].lower())


def _word_value(phrase: str) -> int:
    """ "three hundred and forty-two" is 342."""
    total = 0
    for word in re.split("[ -]", phrase):
        if word in _SCALES:
            total = max(total, 1) * _SCALES[word]
        else:
            total += _SMALL.get(word, 0)  # "and" adds nothing
    return total


def _evaluate(node: ast.expr) -> int | float:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return _bounded(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _evaluate(operand)
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _BINARY:
            return _bounded(_BINARY[type(operation)](_evaluate(left), _evaluate(right)))
    raise ValueError("calculate() reads arithmetic only")


def _power(base: int | float, exponent: int | float) -> int | float:
    """base ** exponent. Raises ValueError before computing more than MAX_BITS."""
    if isinstance(base, int) and isinstance(exponent, int) and abs(exponent) * base.bit_length() > MAX_BITS:
        raise ValueError(f"calculate() holds numbers of at most {MAX_BITS} bits")
    value: int | float | complex = base**exponent
    if isinstance(value, complex):
        raise ValueError("calculate() has no roots of negative numbers")
    return value


def _bounded(value: int | float) -> int | float:
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise ValueError(f"calculate() holds numbers of at most {MAX_BITS} bits")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("calculate() gave no finite number")
    return value


_BINARY: dict[type[ast.operator], Callable[[Any, Any], int | float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: _power,
}
