"""The four operations of word problems: node of a syntax tree → symbol and function."""

import ast
import operator
from collections.abc import Callable
from fractions import Fraction

OPERATIONS: dict[type[ast.operator], tuple[str, Callable[[Fraction, Fraction], Fraction]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
}
