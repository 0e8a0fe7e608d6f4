"""Enumerative search without a policy: the shortest arithmetic over a question's quantities that gives its answer.

Bottom-up enumeration with observational equivalence (Udupa et al. 2013, "TRANSIT", §5): one of all expressions with the
same values is kept. Expressions are equivalent only if they agree on the problem *and* its siblings; on a single input
right programs would be merged with wrong ones. Without siblings, random inputs without an answer separate them. Tables
hold all expressions of up to two operations; longer ones meet in the middle: the required value of one operand is
looked up.

Values are computed here on numbers only; the resulting workflow is run in the sandbox like any other.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
"""[N, K]: N expressions on K inputs: of the problem, its siblings, then those without an answer."""

CONSTANTS = (1, 2, 100)
TABLED = 2  # operations of the largest tabulated expressions
LARGEST = 1e9
DIGITS = 27  # binary digits of precision in comparisons, about eight decimal ones
VARIABLES = "abcdefgh"


@dataclass(frozen=True)
class Expression:
    """`left symbol right`, or a leaf (`n[2]`, `100`) where `symbol` is empty."""

    symbol: str = ""
    left: "Expression | None" = None
    right: "Expression | None" = None
    leaf: str = ""

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """All operands in the order of the text."""
        if self.left is None or self.right is None:
            return (self.leaf,)
        return self.left.leaves + self.right.leaves

    @property
    def strangeness(self) -> tuple[int, int, list[int]]:
        """Sort key, likelier programs first: no quantity twice, few constants, quantities in the order of the text."""
        quantities = [int(leaf[2:-1]) for leaf in self.leaves if leaf.startswith("n")]
        return (len(quantities) - len(set(quantities)), len(self.leaves) - len(quantities), quantities)


def write_workflow(expression: Expression, header: str) -> str:
    """The code of the workflow: one statement for each operation in order of evaluation."""
    lines: list[str] = []

    def write(part: Expression) -> str:
        if part.left is None or part.right is None:
            return part.leaf
        left, right = write(part.left), write(part.right)
        variable = VARIABLES[len(lines)]
        lines.append(f"    {variable} = {left} {part.symbol} {right}\n")
        return variable

    result = write(expression)
    return header + "".join(lines) + f"    return {result}\n"


def shortest_expressions(
    quantities: Sequence[Sequence[float]], answers: Sequence[float], operations: int, further: int = 0
) -> list[Expression]:
    """The expressions with fewest operations, 1 to `operations`, whose values are the answers; likelier ones first.

    `quantities` [K, Q]: `numbers` of each of the K questions, cut to the smallest count. `answers` [A]: of the first A
    questions; the other inputs only separate expressions. `further`: number of operations beyond the fewest that are
    searched as well. [] if there is none.
    """
    count = min(len(q) for q in quantities)
    leaves = [Expression(leaf=f"n[{i}]") for i in range(count)] + [Expression(leaf=str(c)) for c in CONSTANTS]
    columns = [[float(q[i]) for q in quantities] for i in range(count)]
    values = np.array(columns + [[float(c)] * len(quantities) for c in CONSTANTS])
    tables = [_Table(values, len(answers), leaves.__getitem__)]
    while len(tables) <= min(operations, TABLED):
        tables.append(tables[-1].joined(tables[0]))
    target = np.array([float(a) for a in answers])
    by_length = (list(_find(tables, target, length)) for length in range(1, operations + 1))
    expressions = next(filter(None, by_length), [])
    for longer in islice(by_length, further):
        expressions += longer
    return sorted(dict.fromkeys(expressions), key=lambda e: e.strangeness)


@dataclass
class _Table:
    """Expressions with distinct values, built on demand."""

    values: Values
    answered: int  # number of leading inputs used in lookups
    expression: Callable[[int], Expression]  # of a row

    @cached_property
    def index(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sorted hashes of the values used in lookups, and their rows."""
        _, distinct = np.unique(_hashes(self.values), return_index=True)
        distinct.sort()
        hashes = _hashes(self.values[distinct, : self.answered])
        order = np.argsort(hashes, kind="stable")
        return hashes[order], distinct[order]

    def joined(self, small: "_Table") -> "_Table":
        """All expressions of one more operation: each of this table with each of `small`, in both orders."""
        pairs = np.indices((len(self.values), len(small.values))).reshape(2, -1)
        left, right = self.values[pairs[0]], small.values[pairs[1]]
        values, made = [], []
        for form, (compute, _, _) in enumerate(_FORMS):
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                result = compute(left, right)
                sensible = _sensible(result[:, : self.answered]) & np.isfinite(result).all(axis=1)
            values.append(result[sensible])
            made.append(np.vstack([np.full(sensible.sum(), form), pairs[:, sensible]]).T)
        all_values, all_made = np.concatenate(values), np.concatenate(made)
        _, first = np.unique(_hashes(all_values), return_index=True)
        first.sort()
        kept = all_made[first]

        def expression(row: int) -> Expression:
            form, first, second = kept[row].tolist()
            return _write(form, self.expression(first), small.expression(second))

        return _Table(all_values[first], self.answered, expression)

    def rows(self, wanted: Values) -> list[tuple[int, int]]:
        """All pairs (row of `wanted`, row of this table) of equal values."""
        hashes, order = self.index
        keys = _hashes(wanted)
        begins, ends = (np.searchsorted(hashes, keys, side=side) for side in ("left", "right"))
        hits = np.flatnonzero(ends > begins).tolist()
        return [(row, match) for row in hits for match in order[begins[row] : ends[row]].tolist()]


# Operations on x of the larger and y of the smaller part: value, text, and the x required for a target and given y.
# The mirror images of + and * are omitted.
_FORMS: list[tuple[Any, str, Any]] = [
    (lambda x, y: x * y, "x*y", lambda target, y: target / y),
    (lambda x, y: x + y, "x+y", lambda target, y: target - y),
    (lambda x, y: x - y, "x-y", lambda target, y: target + y),
    (lambda x, y: y - x, "y-x", lambda target, y: y - target),
    (lambda x, y: x / y, "x/y", lambda target, y: target * y),
    (lambda x, y: y / x, "y/x", lambda target, y: y / target),
]


def _write(form: int, x: Expression, y: Expression) -> Expression:
    text = _FORMS[form][1]
    left, right = (x, y) if text[0] == "x" else (y, x)
    if text[1] in "+*" and not left.symbol and not right.symbol and left.leaf > right.leaf:
        left, right = right, left
    return Expression(text[1], left, right)


def _find(tables: list[_Table], target: NDArray[np.float64], length: int) -> Iterator[Expression]:
    """Expressions of exactly `length` operations with values `target` [A]."""
    if length < len(tables):
        for _, row in tables[length].rows(target[None]):
            yield tables[length].expression(row)
        return
    for small in range(min(TABLED, (length - 1) // 2) + 1):
        large = length - 1 - small
        for form, (_, _, needed) in enumerate(_FORMS):
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                wanted = needed(target, tables[small].values[:, : len(target)])
                usable = _sensible(wanted)
            if large < len(tables):
                hits = tables[large].rows(wanted[usable])
                for row, match in hits:
                    y = tables[small].expression(int(np.flatnonzero(usable)[row]))
                    yield _write(form, tables[large].expression(match), y)
            else:
                for row in np.flatnonzero(usable).tolist():
                    y = tables[small].expression(row)
                    yield from (_write(form, x, y) for x in _find(tables, wanted[row], large))


def _sensible(values: Values) -> NDArray[np.bool_]:
    """[N]: True if all values are plausible for a word problem."""
    sensible: NDArray[np.bool_] = np.logical_and.reduce((values > 0) & (values < LARGEST), axis=1)  # NaN gives False
    return sensible


def _hashes(values: Values) -> NDArray[np.int64]:
    """A hash of each row rounded to DIGITS; collisions are rejected later by the run in the sandbox."""
    mantissas, exponents = np.frexp(values)
    whole = np.ldexp(np.rint(np.ldexp(mantissas, DIGITS)), exponents).view(np.int64)
    multipliers = np.array([0x9E3779B97F4A7C15 >> 1, 0x2545F4914F6CDD1D, 0x5851F42D4C957F2D], dtype=np.int64)
    mixed = np.zeros(len(values), dtype=np.int64)
    for column in range(values.shape[1]):
        mixed = (mixed ^ whole[:, column]) * multipliers[column % 3]
        mixed ^= mixed >> 29
    return mixed
