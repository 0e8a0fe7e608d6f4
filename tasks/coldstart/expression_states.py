"""Partial programs of a batch of problems as arrays: legal next statements and their categorical features.

Shapes: B states, I inputs of which the first R are real, M operands (STATEMENTS values, then leaves), S symbols.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.coldstart.expression_space import APPLY, LARGEST, LEAVES, STATEMENTS, SYMBOLS, Program, Space

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

WIDTHS = (16, STATEMENTS + LEAVES)
"""Widths (numbers of operands) of arrays; a problem has the same width, hence the same result, in any batch."""

SMALLEST = 1e-9
PAIR_KINDS = 64
USE_KINDS = 16
STOP_KINDS = 7 * 4 * 4


@dataclass(frozen=True)
class Leaves:
    """The leaves of P problems. `values` [P, I, M - STATEMENTS], padded with NaN."""

    values: Floats
    real: int
    quantity: Flags  # [P, M - STATEMENTS]
    constant: Flags  # [P, M - STATEMENTS]
    sensible: Flags  # [P, S, M, M]: statements not pruned for any values
    relation: Ints  # [P, M - STATEMENTS, M - STATEMENTS]: relation of two leaves in the text
    inputs: int


@dataclass(frozen=True)
class States:
    """B partial programs."""

    values: Floats  # [B, I, M], padded with NaN
    real: int
    depth: Ints  # [B]: statements so far
    used: Flags  # [B, M]
    reach: Ints  # [B, STATEMENTS]: bit i: the value depends on quantity i
    leaves: Leaves
    problem: Ints  # [B]: index into `leaves`


def width_of(space: Space) -> int:
    """Width of the arrays of a problem."""
    return next(width for width in WIDTHS if width >= STATEMENTS + space.leaves)


def leaves_of(spaces: Sequence[Space], width: int) -> Leaves:
    """Arrays of problems of the same width; missing siblings are copies of the problem itself."""
    from tasks.coldstart.question_words import quantity_relations

    real = max(len(space.answers) for space in spaces)
    extra = len(spaces[0].inputs) - len(spaces[0].answers)
    size = width - STATEMENTS
    values = np.full((len(spaces), real + extra, size), np.nan)
    quantity = np.zeros((len(spaces), size), dtype=bool)
    constant, one = quantity.copy(), quantity.copy()
    relation = np.zeros((len(spaces), size, size), dtype=np.int64)
    for p, space in enumerate(spaces):
        own = len(space.answers)
        rows = [*range(own), *([0] * (real - own)), *range(own, own + extra)]
        values[p, :, : space.leaves] = space.inputs[rows]
        quantity[p, : space.quantities] = True
        constant[p, space.quantities : space.leaves] = True
        one[p] = constant[p] & (values[p, 0] == 1)
        relation[p, : space.quantities, : space.quantities] = quantity_relations(space)
    return Leaves(values, real, quantity, constant, _sensible(constant, one), relation, real + extra)


def legal_statements(states: States) -> Flags:
    """[B, S, M, M]: the statements that are not pruned.

    Pruned: results outside (0, LARGEST] on a real input; multiplication or division by the constant 1; two constants;
    x - x and x / x; mirror images of sums and products; more unused values than the remaining statements can join.
    """
    real = states.values[:, : states.real]
    left, right = real[:, :, :, None], real[:, :, None, :]
    sensible = states.leaves.sensible[states.problem] & _joinable(states)[:, None]
    with np.errstate(all="ignore"):
        for symbol, operation in enumerate((np.add, np.subtract, np.multiply, np.divide)):
            results = operation(left, right)
            sensible[:, symbol] &= ((results > SMALLEST) & (results <= LARGEST)).all(axis=1)
    return sensible


def _sensible(constant: Flags, one: Flags) -> Flags:
    """[P, S, M, M] from flags [P, M - STATEMENTS]: statements not pruned for any values."""
    values = np.zeros((len(constant), STATEMENTS), dtype=bool)
    constant, one = np.hstack([values, constant]), np.hstack([values, one])
    width = constant.shape[1]
    upper = np.triu(np.ones((width, width), dtype=bool))
    off = ~np.eye(width, dtype=bool)
    sensible = np.stack([upper, off, upper, off])[None] & ~(constant[:, :, None] & constant[:, None])[:, None]
    sensible[:, 2:] &= ~one[:, None, None, :]
    sensible[:, 2] &= ~one[:, :, None]
    return sensible


def _on_operands(states: States, leaf_flags: Flags) -> Flags:
    """[B, M] from flags [P, leaves]: False for values."""
    flags = np.zeros((len(states.depth), states.values.shape[2]), dtype=bool)
    flags[:, STATEMENTS:] = leaf_flags[states.problem]
    return flags


def _joinable(states: States) -> Flags:
    """[B, M, M]: True if the remaining statements can still join all unused values."""
    loose = loose_values(states).astype(np.int8)
    off = ~np.eye(loose.shape[1], dtype=bool)
    joined = loose[:, :, None] + loose[:, None, :] * off
    left = STATEMENTS - 1 - states.depth
    return joined >= (loose.sum(axis=1) - left)[:, None, None]  # type: ignore[no-any-return]


def loose_values(states: States) -> Flags:
    """[B, M]: values not used by a statement yet."""
    present = np.arange(states.values.shape[2])[None] < np.minimum(states.depth, STATEMENTS)[:, None]
    return present & ~states.used


def pair_kinds(states: States) -> Ints:
    """[B, M, M] in [0, PAIR_KINDS): relation of two operands.

    Two quantities: their distance in the text and whether they count the same thing. A value and a quantity: position
    of the quantity relative to those that the value depends on.
    """
    size, width = states.values.shape[0], states.values.shape[2]
    kinds = np.zeros((size, width, width), dtype=np.int64)
    kinds[:, STATEMENTS:, STATEMENTS:] = states.leaves.relation[states.problem]
    places = np.arange(width - STATEMENTS)
    inside = (states.reach[:, :, None] >> places) & 1  # [B, STATEMENTS, leaves]
    any_inside = states.reach > 0
    low = np.where(any_inside, inside.argmax(axis=2), 99)
    high = np.where(any_inside, width - STATEMENTS - 1 - inside[:, :, ::-1].argmax(axis=2), -99)
    place = places[None, None]
    relation = np.where(
        inside > 0, 0, np.where(place == high[:, :, None] + 1, 1, np.where(place > high[:, :, None], 2, 3))
    )
    relation = np.where((place == low[:, :, None] - 1) & (inside == 0), 4, relation)
    quantity = states.leaves.quantity[states.problem][:, None, :]
    relation = np.where(quantity, relation, 5)
    mixed = 40 + relation
    kinds[:, :STATEMENTS, STATEMENTS:] = mixed
    kinds[:, STATEMENTS:, :STATEMENTS] = (mixed + 6).transpose(0, 2, 1)
    overlap = (states.reach[:, :, None] & states.reach[:, None, :]) > 0
    both = 52 + 2 * (np.arange(STATEMENTS)[:, None] < np.arange(STATEMENTS)[None]) + overlap
    kinds[:, :STATEMENTS, :STATEMENTS] = both
    diagonal = np.arange(width)
    kinds[:, diagonal, diagonal] = np.where(diagonal < STATEMENTS, 57, 58)[None]
    return kinds


def use_kinds(states: States) -> Ints:
    """[B, M] in [0, USE_KINDS): leaf, constant or value; used before; the first unused quantity; the last value."""
    used = states.used.astype(np.int64)
    width = used.shape[1]
    kinds = np.zeros_like(used)
    quantity, constant = _on_operands(states, states.leaves.quantity), _on_operands(states, states.leaves.constant)
    waiting = quantity & ~states.used
    first = waiting & (np.cumsum(waiting, axis=1) == 1)
    kinds = np.where(quantity, np.where(states.used, 1, np.where(first, 2, 3)), kinds)
    kinds = np.where(constant, 4 + used, kinds)
    value = np.arange(width)[None] < STATEMENTS
    latest = np.arange(width)[None] == states.depth[:, None] - 1
    return np.where(value, 6 + used + 2 * latest + 4 * (states.depth[:, None] > 2), kinds)


def stop_kinds(depth: Ints, used: Ints, quantities: Ints) -> Ints:
    """[B] in [0, STOP_KINDS): numbers of statements, of unused quantities and of unused values.

    `used` and `quantities` are bit sets of operands.
    """
    unused = np.bitwise_count(quantities & ~used).astype(np.int64)
    loose = np.bitwise_count((1 << depth) - 1 & ~used).astype(np.int64)
    return (depth * 4 + np.minimum(unused, 3)) * 4 + np.minimum(loose, 3)  # type: ignore[no-any-return]


def bits_of(flags: Flags) -> Ints:
    """[B] from [B, M]: bit i is flag i."""
    return (flags.astype(np.int64) << np.arange(flags.shape[1])).sum(axis=1)  # type: ignore[no-any-return]


def replay(spaces: Sequence[Space], programs: Sequence[Program], steps: int, width: int) -> States:
    """The states after the first `steps` statements of each problem's program, all of the same width."""
    leaves = leaves_of(spaces, width)
    size = len(spaces)
    values = np.full((size, leaves.inputs, width), np.nan)
    values[:, :, STATEMENTS:] = leaves.values
    used = np.zeros((size, width), dtype=bool)
    reach = np.zeros((size, STATEMENTS), dtype=np.int64)
    for b, (space, program) in enumerate(zip(spaces, programs, strict=True)):
        for t, (symbol, left, right) in enumerate(program[:steps]):
            values[b, :, t] = apply_symbol(SYMBOLS.index(symbol), values[b, :, left], values[b, :, right])
            used[b, [left, right]] = True
            for operand in (left, right):
                if operand < STATEMENTS:
                    reach[b, t] |= reach[b, operand]
                elif operand < STATEMENTS + space.quantities:
                    reach[b, t] |= 1 << (operand - STATEMENTS)
    return States(values, leaves.real, np.full(size, steps), used, reach, leaves, np.arange(size))


def apply_symbol(symbol: int, left: Floats, right: Floats) -> Floats:
    """`left symbol right`, without numeric warnings."""
    with np.errstate(all="ignore"):
        made: Floats = APPLY[SYMBOLS[symbol]](left, right)
    return made
