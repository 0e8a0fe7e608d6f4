"""Template of word problems, with its quantities, answer and reference program."""

import ast
import random
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from string import Formatter

Option = tuple[str, Fraction]
"""A quantity as text, and its value."""

WORDS = {
    "half": Fraction(1, 2),
    "twice": Fraction(2),
    "double": Fraction(2),
    "triple": Fraction(3),
    "two": Fraction(2),
    "three": Fraction(3),
    "four": Fraction(4),
    "five": Fraction(5),
    "six": Fraction(6),
    "seven": Fraction(7),
    "eight": Fraction(8),
    "nine": Fraction(9),
    "ten": Fraction(10),
    "eleven": Fraction(11),
    "twelve": Fraction(12),
    "dozen": Fraction(12),
}
"""The number words that questions may contain."""

LARGEST = 100_000


@dataclass(frozen=True)
class Quantity:
    """The options of a number in a story; a `ratio` (3/4, 20%) need not be integral."""

    options: tuple[Option, ...]
    ratio: bool = False


def whole(low: int, high: int, step: int = 1) -> Quantity:
    """`12` … `1,200`."""
    return Quantity(tuple((f"{value:,}", Fraction(value)) for value in range(low, high + 1, step)))


def plain(low: int, high: int) -> Quantity:
    """A number used as a name (a year, a bus line), without thousands comma."""
    return Quantity(tuple((str(value), Fraction(value)) for value in range(low, high + 1)))


def dollars(low: int, high: int, cents: int = 100) -> Quantity:
    """`$15`, `$2.50`, in steps of `cents`."""
    values = [Fraction(value, 100) for value in range(low * 100, high * 100 + 1, cents)]
    return Quantity(
        tuple(
            (f"${value.numerator:,}" if value.denominator == 1 else f"${float(value):,.2f}", value) for value in values
        )
    )


def decimals(low: int, high: int) -> Quantity:
    """`2.5`, in steps of a half."""
    values = [Fraction(value, 2) for value in range(low * 2, high * 2 + 1)]
    return Quantity(tuple((f"{float(value):g}", value) for value in values))


def percents(*values: int) -> Quantity:
    """`20%`, which means 0.2."""
    return Quantity(tuple((f"{value}%", Fraction(value, 100)) for value in values), ratio=True)


def shares(*texts: str) -> Quantity:
    """`3/4`, or `half`."""
    return Quantity(tuple((text, WORDS.get(text) or Fraction(text)) for text in texts), ratio=True)


def words(*texts: str) -> Quantity:
    """Number words, or phrases that begin with a digit: `twice`, `3 times`, `dozen`, `four`."""
    return Quantity(tuple((text, WORDS.get(text) or Fraction(text.split()[0])) for text in texts))


@dataclass(frozen=True)
class Template:
    """A story with open quantities; `solution` is an arithmetic expression over their names and 1, 2, 100.

    The phrasings are variants of the same story with their own order of the quantities, possibly with unused ones. With
    `hundredths` results may have two decimals (cents, half miles), else they are integral.
    """

    name: str
    family: str
    solution: str
    phrasings: tuple[str, ...]
    quantities: dict[str, Quantity]
    items: tuple[str, ...] = ()
    hundredths: bool = False

    @property
    def operators(self) -> list[str]:
        """The symbols + - * / of the solution, one for each operation."""
        return [_SYMBOLS[type(node.op)] for node in ast.walk(_expression(self)) if isinstance(node, ast.BinOp)]

    @property
    def operations(self) -> int:
        return len(self.operators)

    def order(self, phrasing: int) -> list[str]:
        """Names of the quantities in the order of a phrasing."""
        fields = [field for _, field, _, _ in Formatter().parse(self.phrasings[phrasing]) if field]
        return [field for field in fields if field in self.quantities]


def program_of(template: Template, phrasing: int) -> str:
    """Body of the reference workflow: one operation per statement over `n[0]`, `n[1]` … in the order of the text."""
    order = template.order(phrasing)
    lines: list[str] = []

    def write(node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return f"n[{order.index(node.id)}]"
        if isinstance(node, ast.Constant):
            return str(node.value)
        assert isinstance(node, ast.BinOp)
        left, right = write(node.left), write(node.right)
        target = "abcdefgh"[len(lines)]
        lines.append(f"{target} = {left} {_SYMBOLS[type(node.op)]} {right}")
        return target

    result = write(_expression(template))
    return "\n".join([*lines, f"return {result}"])


def answer_of(template: Template, values: dict[str, Fraction]) -> Fraction | None:
    """The exact answer, or None if these quantities make no sensible story.

    Every step must be above 0, at most LARGEST, and integral (or in hundredths, where allowed) unless it consists of
    ratios only; the answer must not be one of the quantities.
    """
    try:
        answer, _ = _evaluate(_expression(template), template, values)
    except _SenselessError:
        return None
    return None if answer in values.values() else answer


def draw_quantities(template: Template, phrasing: int, rng: random.Random) -> tuple[dict[str, Option], Fraction] | None:
    """One draw of the quantities of a phrasing, with the answer; None if they make no sensible story.

    The values differ from each other, so that a program that reads the wrong number is wrong.
    """
    drawn = {name: rng.choice(template.quantities[name].options) for name in dict.fromkeys(template.order(phrasing))}
    values = {name: value for name, (_, value) in drawn.items()}
    if len(set(values.values())) < len(values):
        return None
    answer = answer_of(template, values)
    return None if answer is None else (drawn, answer)


_SYMBOLS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


class _SenselessError(Exception):
    pass


def _expression(template: Template) -> ast.expr:
    return _parse(template.solution)


@lru_cache(1024)
def _parse(solution: str) -> ast.expr:
    return ast.parse(solution, mode="eval").body


def _evaluate(node: ast.expr, template: Template, values: dict[str, Fraction]) -> tuple[Fraction, bool]:
    """Value of a part of the solution; the flag is True if it consists of ratios and constants only."""
    if isinstance(node, ast.Name):
        return values[node.id], template.quantities[node.id].ratio
    if isinstance(node, ast.Constant):
        return Fraction(str(node.value)), True
    assert isinstance(node, ast.BinOp)
    (left, left_ratio), (right, right_ratio) = (
        _evaluate(node.left, template, values),
        _evaluate(node.right, template, values),
    )
    match node.op:
        case ast.Add():
            value = left + right
        case ast.Sub():
            value = left - right
        case ast.Mult():
            value = left * right
        case _:
            value = left / right
    ratio = left_ratio and right_ratio
    unit = 100 if template.hundredths else 1
    if not 0 < value <= LARGEST or not (ratio or (value * unit).denominator == 1):
        raise _SenselessError
    return value, ratio
