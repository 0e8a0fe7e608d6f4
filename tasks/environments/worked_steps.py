"""Worked steps of a workflow for a question: `12 * 4 = 48`.

Supports only workflows of the cold-start search, with one binary operation per statement. They are interpreted from
the syntax tree, not run.
"""

import ast
from fractions import Fraction

from tasks.programs.operators.builtin import numbers

_SYMBOLS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def worked_steps(code: str, question: str) -> tuple[list[str], str]:
    """(steps, answer): each statement with its values, and the returned value, as text.

    Raises ValueError for any other code and for a division by 0.
    """
    quantities = [Fraction(str(number)) for number in numbers(question)]
    variables: dict[str, Fraction] = {}
    steps: list[str] = []
    for statement in _body(code):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(left=left, op=op, right=right)):
                first, second = (_value(side, quantities, variables) for side in (left, right))
                variables[name] = _applied(op, first, second)
                operation = f"{format_number(first)} {_SYMBOLS[type(op)]} {format_number(second)}"
                steps.append(f"{operation} = {format_number(variables[name])}")
            case ast.Return(value=ast.expr() as value):
                return steps, format_number(_value(value, quantities, variables))
            case _:
                raise ValueError(f"no step: {ast.unparse(statement)}")
    raise ValueError("returns nothing")


def format_number(value: Fraction) -> str:
    """`48`, `0.25`; rounded to at most six decimals."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"{float(value):.6f}".rstrip("0").rstrip(".")


def _body(code: str) -> list[ast.stmt]:
    """The statements of `solve` after the first, which reads the quantities."""
    match ast.parse(code).body:
        case [ast.FunctionDef(body=[_, *statements])]:
            return statements
    raise ValueError("not one function with a body")


def _value(operand: ast.expr, quantities: list[Fraction], variables: dict[str, Fraction]) -> Fraction:
    match operand:
        case ast.Constant(value=int() | float() as number):
            return Fraction(str(number))
        case ast.Name(id=name) if name in variables:
            return variables[name]
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
