"""What a workflow computes for a question, written down step by step: `12 * 4 = 48`.

Only for workflows that the search without a policy writes: one operation of two operands a statement. They are read,
never run.
"""

import ast
from fractions import Fraction

from tasks.programs.operators.builtin import numbers

_SYMBOLS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def worked_steps(code: str, question: str) -> tuple[list[str], str]:
    """(steps, answer): each statement with its values, and the value that is returned, both as people write them.

    Raises ValueError where the code is anything else, or divides by 0.
    """
    quantities = [Fraction(str(number)) for number in numbers(question)]
    known: dict[str, Fraction] = {}
    steps: list[str] = []
    for statement in _body(code):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(left=left, op=op, right=right)):
                first, second = (_value(side, quantities, known) for side in (left, right))
                known[name] = _applied(op, first, second)
                steps.append(
                    f"{format_number(first)} {_SYMBOLS[type(op)]} {format_number(second)} = {format_number(known[name])}"
                )
            case ast.Return(value=ast.expr() as value):
                return steps, format_number(_value(value, quantities, known))
            case _:
                raise ValueError(f"no step: {ast.unparse(statement)}")
    raise ValueError("returns nothing")


def format_number(value: Fraction) -> str:
    """`48`, `0.25`; at most six decimals, rounded."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"{float(value):.6f}".rstrip("0").rstrip(".")


def _body(code: str) -> list[ast.stmt]:
    """The statements of `solve` after the one that reads the quantities."""
    match ast.parse(code).body:
        case [ast.FunctionDef(body=[_, *statements])]:
            return statements
    raise ValueError("not one function with a body")


def _value(operand: ast.expr, quantities: list[Fraction], known: dict[str, Fraction]) -> Fraction:
    match operand:
        case ast.Constant(value=int() | float() as number):
            return Fraction(str(number))
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.Subscript(slice=ast.Constant(value=int() as place)) if 0 <= place < len(quantities):
            return quantities[place]
    raise ValueError(f"no operand: {ast.unparse(operand)}")


def _applied(op: ast.operator, left: Fraction, right: Fraction) -> Fraction:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div() if right:
            return left / right
    raise ValueError("divides by 0, or is no step")
