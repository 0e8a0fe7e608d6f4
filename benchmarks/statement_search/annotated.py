"""Programs from solutions that are annotated as GSM8K's are: `48/2 = <<48/2=24>>24`.

An annotation tells values, not where they come from: a 5 may be the third quantity of the question, a 5 that an earlier
step gave, or a constant. `programs_of` gives every reading, `likely_program` the one that a prior is trained on.
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, product
from math import isclose

import numpy as np

from tasks.coldstart.expression_space import APPLY, LARGEST, STATEMENTS, SYMBOLS, Array, Program, Space

READINGS = 256
"""Most readings of a solution that are enumerated."""

_STEP = re.compile(r"<<([^<>=]+)=([^<>]*)>>")
_OPERATIONS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


@dataclass(frozen=True)
class NumberLiteral:
    """A number in an annotation: the `place`-th of the solution, in step `step`."""

    value: float
    place: int
    step: int


@dataclass(frozen=True)
class Operation:
    symbol: str
    left: "Term"
    right: "Term"


Term = NumberLiteral | Operation


@dataclass(frozen=True)
class Solution:
    """The steps up to the one that gives the answer; `results` [steps] as in the text."""

    steps: list[Operation]
    results: list[float]


def parse_solution(text: str, answer: float) -> Solution | None:
    """The annotated steps; None if one does not parse or none gives the answer."""
    steps: list[Operation] = []
    results: list[float] = []
    places = iter(range(10_000))
    for expression, result in _STEP.findall(text):
        value = _number(result)
        term = _term(expression, len(steps), lambda: next(places))
        if value is None or term is None:
            return None
        if isinstance(term, Operation):
            steps.append(term)
            results.append(value)
    last = max((i for i, result in enumerate(results) if isclose(result, answer, rel_tol=1e-6)), default=None)
    return None if last is None else Solution(steps[: last + 1], results[: last + 1])


Choice = tuple[str, int | float]
"""("step", its index), ("leaf", its index) or ("constant", its value)."""


def choices(literal: NumberLiteral, solution: Solution, space: Space) -> list[Choice]:
    """Possible meanings of a literal: results of earlier steps, the latest first, leaves, else itself."""
    steps = [i for i in range(literal.step - 1, -1, -1) if _same(solution.results[i], literal.value)]
    leaves = [i for i in range(space.leaves) if _same(space.inputs[0, i], literal.value)]
    found: list[Choice] = [*(("step", i) for i in steps), *(("leaf", i) for i in leaves)]
    return found or [("constant", literal.value)]


def behaviours(solution: Solution, space: Space) -> Iterator[Array]:
    """Values of each reading of the solution on all inputs [I]."""
    step_forms = [_forms(step, space) for step in solution.steps]
    for steps in product(*step_forms):
        literals = [literal for step in steps for literal in _literals(step)]
        options = [choices(literal, solution, space) for literal in literals]
        for chosen in product(*options):
            reading = {literal.place: choice for literal, choice in zip(literals, chosen, strict=True)}
            yield _value(list(steps), reading, space)


def is_annotated(values: Array, solution: Solution, space: Space) -> bool:
    """True if a program with these values [I] equals some reading of the solution as a function of the quantities."""
    with np.errstate(all="ignore"):
        readings = islice(behaviours(solution, space), READINGS)
        return any(bool(np.allclose(values, reading, rtol=1e-6, atol=1e-9)) for reading in readings)


def likely_program(solution: Solution, space: Space) -> Program | None:
    """The reading in which literals refer to unused values first; None if it does not fit the space."""
    writer = _Writer(solution, space)
    for step in solution.steps:
        form = min(_forms(step, space), key=lambda f: sum(writer.is_foreign(literal) for literal in _literals(f)))
        writer.results.append(writer.write(form))
    program = _without_dead(tuple(writer.statements), writer.results[-1])
    if writer.foreign or program is None or len(program) > STATEMENTS:
        return None
    return program


class _Writer:
    """Writes statements and records used operands."""

    def __init__(self, solution: Solution, space: Space) -> None:
        self.solution, self.space = solution, space
        self.statements: list[tuple[str, int, int]] = []
        self.results: list[int] = []  # operand that each step's result is
        self.used: set[int] = set()
        self.foreign = False

    def is_foreign(self, literal: NumberLiteral) -> bool:
        return choices(literal, self.solution, self.space)[0][0] == "constant"

    def write(self, term: Term) -> int:
        """The operand that a term is; beyond STATEMENTS statements operands are counted from 1000."""
        if isinstance(term, NumberLiteral):
            return self._operand(term)
        left, right = self.write(term.left), self.write(term.right)
        self.statements.append((term.symbol, left, right))
        return 1000 + len(self.statements) - 1

    def _operand(self, literal: NumberLiteral) -> int:
        found = choices(literal, self.solution, self.space)
        operands = [self.results[int(at)] if kind == "step" else STATEMENTS + int(at) for kind, at in found]
        if found[0][0] == "constant":
            self.foreign = True
            return STATEMENTS
        operand = next((o for o in operands if o not in self.used), operands[0])
        self.used.add(operand)
        return operand


def _without_dead(statements: Program, result: int) -> Program | None:
    """The statements that `result` needs, renumbered; operands from 1000 on are statements."""
    if result < 1000:
        return None
    needed = {result - 1000}
    for place in range(len(statements) - 1, -1, -1):
        if place in needed:
            needed.update(operand - 1000 for operand in statements[place][1:] if operand >= 1000)
    order = {place: number for number, place in enumerate(sorted(needed))}

    def renumbered(operand: int) -> int:
        return order[operand - 1000] if operand >= 1000 else operand

    return tuple((s, renumbered(left), renumbered(right)) for s, left, right in (statements[p] for p in sorted(order)))


def _forms(term: Term, space: Space) -> list[Term]:
    """A step, and the same step where `20/100` is the quantity 20%, or `/2` is `* n[i]` where n[i] is a half."""
    return _rewritten(term, space)[:8]


def _rewritten(term: Term, space: Space) -> list[Term]:
    if isinstance(term, NumberLiteral):
        return [term]
    quantities = space.inputs[0, : space.quantities].tolist()
    forms: list[Term] = []
    hundredth = {"/": 100.0, "*": 0.01}.get(term.symbol)
    if isinstance(term.left, NumberLiteral) and isinstance(term.right, NumberLiteral) and term.right.value == hundredth:
        part = term.left.value / 100
        if any(_same(q, part) for q in quantities):
            forms.append(NumberLiteral(part, term.left.place, term.left.step))
    for left in _rewritten(term.left, space):
        for right in _rewritten(term.right, space):
            forms.append(Operation(term.symbol, left, right))
            if term.symbol == "*" and isinstance(right, NumberLiteral) and right.value == 0.01:
                forms.append(Operation("/", left, NumberLiteral(100.0, right.place, right.step)))
            divides = term.symbol == "/" and isinstance(right, NumberLiteral) and right.value > 1
            if divides and isinstance(right, NumberLiteral) and any(_same(q, 1 / right.value) for q in quantities):
                forms.append(Operation("*", left, NumberLiteral(1 / right.value, right.place, right.step)))
    return forms


def _literals(term: Term) -> list[NumberLiteral]:
    return [term] if isinstance(term, NumberLiteral) else _literals(term.left) + _literals(term.right)


def _value(steps: list[Term], reading: dict[int, Choice], space: Space) -> Array:
    results: list[Array] = []

    def value(term: Term) -> Array:
        if isinstance(term, NumberLiteral):
            kind, which = reading[term.place]
            if kind == "step":
                return results[int(which)]
            if kind == "leaf":
                return space.inputs[:, int(which)]
            return np.full(len(space.inputs), float(which))
        made: Array = APPLY[term.symbol](value(term.left), value(term.right))
        return made

    for step in steps:
        results += [value(step)]
    return results[-1]


def _same(left: float, right: float) -> bool:
    return isclose(left, right, rel_tol=1e-6)


def _term(expression: str, step: int, place: Callable[[], int]) -> Term | None:
    text = re.sub(r"(\d),(?=\d{3})", r"\1", expression).replace("$", "").replace("x", "*")
    text = re.sub(r"(?<![\d.])0+(?=\d)", "", re.sub(r"(\d*\.?\d+)%", r"(\1/100)", text)).strip()
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return _translated(tree, step, place)


def _translated(node: ast.expr, step: int, place: Callable[[], int]) -> Term | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and 0 < node.value <= LARGEST:
        return NumberLiteral(float(node.value), place(), step)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        left, right = _translated(node.left, step, place), _translated(node.right, step, place)
        if left is not None and right is not None:
            return Operation(_OPERATIONS[type(node.op)], left, right)
    return None


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", "").replace("$", "").replace("%", "").strip())
    except ValueError:
        return None


assert set(_OPERATIONS.values()) == set(SYMBOLS)
