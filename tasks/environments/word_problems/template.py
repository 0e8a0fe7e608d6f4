"""Template of word problems, with its quantities, answer and reference program; all of them are in `templates.yaml`."""

import ast
import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from pathlib import Path
from string import Formatter

from pydantic import ConfigDict, with_config

from tasks.environments.word_problems.quantities import Option, StoryItems, StoryQuantity, read_data

OPERATIONS: dict[type[ast.operator], tuple[str, Callable[[Fraction, Fraction], Fraction]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
}


LARGEST = 100_000


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Template:
    """A story with open quantities; `solution` is an arithmetic expression over their names and 1, 2, 100.

    The phrasings are variants of the same story with their own order of the quantities, possibly with unused ones. With
    `hundredths` results may have two decimals (cents, half miles), else they are integral.
    """

    name: str
    solution: str
    phrasings: tuple[str, ...]
    quantities: dict[str, StoryQuantity]
    items: StoryItems = ()
    hundredths: bool = False

    @property
    def operators(self) -> list[str]:
        """The symbols + - * / of the solution, one for each operation."""
        return [OPERATIONS[type(node.op)][0] for node in ast.walk(_parse(self.solution)) if isinstance(node, ast.BinOp)]

    @property
    def operations(self) -> int:
        return len(self.operators)

    def order(self, phrasing: int) -> list[str]:
        """Names of the quantities in the order of a phrasing."""
        fields = [field for _, field, _, _ in Formatter().parse(self.phrasings[phrasing]) if field]
        return [field for field in fields if field in self.quantities]


@cache
def templates() -> tuple[Template, ...]:
    """All templates of the generator."""
    return read_data(Path(__file__).with_name("templates.yaml"), dict[str, tuple[Template, ...]])["templates"]


def answer_of(template: Template, values: dict[str, Fraction]) -> Fraction | None:
    """The exact answer, or None if these quantities make no sensible story.

    Every step must be above 0, at most LARGEST, and integral (or in hundredths, where allowed) unless it consists of
    ratios only; the answer must not be one of the quantities.
    """
    try:
        answer, _ = _evaluate(_parse(template.solution), template, values)
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


class _SenselessError(Exception):
    pass


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
    left, left_is_ratio = _evaluate(node.left, template, values)
    right, right_is_ratio = _evaluate(node.right, template, values)
    _, compute = OPERATIONS[type(node.op)]
    value, ratio = compute(left, right), left_is_ratio and right_is_ratio
    unit = 100 if template.hundredths else 1
    if not 0 < value <= LARGEST or not (ratio or (value * unit).denominator == 1):
        raise _SenselessError
    return value, ratio
