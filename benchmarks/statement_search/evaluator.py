"""Evaluation of programs without the sandbox: on numbers exactly as Python does, and on arrays of inputs."""

from collections.abc import Sequence

import numpy as np

from tasks.coldstart.expression_space import APPLY, STATEMENTS, SYMBOLS, Array, Program, Space
from tasks.coldstart.expression_states import apply_symbol
from tasks.programs.operators.builtin import numbers

Value = int | float


def evaluate(program: Program, space: Space, question: str) -> Value | None:
    """The value that the workflow of `program` (see `source_of`) returns for `question`; None if it raises.

    The type is that which Python gives: int where all operands are and nothing is divided.
    """
    read = numbers(question)
    if len(read) < space.quantities:
        return None
    constants = [int(value) for value in space.inputs[0, space.quantities :].tolist()]
    leaves: list[Value] = [*read[: space.quantities], *constants]
    values: list[Value] = []
    try:
        for symbol, left, right in program:
            values.append(APPLY[symbol](_pick(values, leaves, left), _pick(values, leaves, right)))
    except (ZeroDivisionError, OverflowError):
        return None
    return values[-1]


def behaviour(program: Program, space: Space) -> Array:
    """[I]: the values of a program on all inputs of its space."""
    values: list[Array] = []
    for symbol, left, right in program:
        operands = [values[o] if o < STATEMENTS else space.inputs[:, o - STATEMENTS] for o in (left, right)]
        values.append(apply_symbol(SYMBOLS.index(symbol), *operands))
    return np.asarray(values[-1])


def _pick(values: Sequence[Value], leaves: Sequence[Value], operand: int) -> Value:
    return values[operand] if operand < STATEMENTS else leaves[operand - STATEMENTS]
