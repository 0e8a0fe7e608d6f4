"""Allow-list on the syntax tree for plain workflows, which may share one sandboxed child.

This is not a security boundary: the child is in the same OS sandbox as every other program. The list keeps programs
from affecting each other. A plain program has no loop, no attribute and no statement that changes an object, and calls
only the operators, by names that it does not bind. Any other name that means something outside of it, a built-in
function's say, does not occur. So its values are data, and the state of the child does not change. Short source that
does not parse is plain too, since nothing of it runs. (Half of the output of an untrained policy is of this kind.)
"""

import ast
import builtins
import re
from functools import lru_cache

from tasks.programs.code_blocks import syntax_tree
from tasks.programs.operators.builtin import OPERATORS
from tasks.programs.sandbox.run_program import ALL_OPERATORS

MAX_CODE = 4096
"""Longest plain workflow, in characters. With MAX_LINE it also keeps parse bombs from the host's parser."""

MAX_LINE = 240
MAX_STATEMENTS = 64
MAX_STRING = 200
MAX_NUMBER = 10**12

_OTHER_STATEMENT = re.compile(r"^(?:import |from |class |@|def (?!solve\(problem\))|\w+ *=(?!=))", re.MULTILINE)
"""Top-level statements that no plain workflow has, found in a fiftieth of the time of parsing."""

_RESERVED = frozenset((*dir(builtins), *ALL_OPERATORS, "solve"))
"""Names that mean something outside of a program."""

_BINARY = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)


@lru_cache(maxsize=4096)
def is_plain(code: str) -> bool:
    """Whether `code` is one `def solve(problem)` of straight-line assignments and returns, or does not parse at all.

    In both cases within the bounds above and without another top-level statement.
    """
    if len(code) > MAX_CODE or any(len(line) > MAX_LINE for line in code.split("\n")) or _OTHER_STATEMENT.search(code):
        return False
    try:
        return _is_plain_module(syntax_tree(code))
    except SyntaxError:
        return True
    except (ValueError, RecursionError, MemoryError):
        return False


def _is_plain_module(module: ast.Module) -> bool:
    match module.body:
        case [
            ast.FunctionDef(
                name="solve",
                args=ast.arguments(
                    posonlyargs=[],
                    args=[ast.arg(arg="problem", annotation=None)],
                    vararg=None,
                    kwonlyargs=[],
                    kwarg=None,
                    defaults=[],
                ),
                decorator_list=[],
                returns=None,
                body=body,
            ) as function
        ] if not getattr(function, "type_params", ()):  # from Python 3.12 on
            return len(body) <= MAX_STATEMENTS and all(map(_is_plain_statement, body))
    return False


def _is_plain_statement(node: ast.stmt) -> bool:
    match node:
        case ast.Assign(targets=[target], value=value):
            return _is_plain_name(target) and _is_plain_expression(value)
        case ast.Return(value=ast.expr() as value):
            return _is_plain_expression(value)
    return False


def _is_plain_expression(node: ast.expr) -> bool:
    match node:
        case ast.Name():
            return _is_plain_name(node)
        case ast.BinOp(left=left, op=operator, right=right):
            return type(operator) in _BINARY and _is_plain_expression(left) and _is_plain_expression(right)
        case ast.Subscript(value=value, slice=index):
            return _is_plain_name(value) and _is_index(index)
        case ast.Constant(value=int() | float() as value):
            return not isinstance(value, bool) and abs(value) <= MAX_NUMBER
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_plain_expression(operand)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return name in OPERATORS and all(map(_is_plain_argument, arguments))
    return False


def _is_plain_argument(node: ast.expr) -> bool:
    match node:
        case ast.List(elts=elements):
            return all(map(_is_plain_expression, elements))
        case ast.Constant(value=str(text)):
            return len(text) <= MAX_STRING
    return _is_plain_expression(node)


def _is_plain_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and not node.id.startswith("__") and node.id not in _RESERVED


def _is_index(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=int(value)) | ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return type(value) is int and value <= MAX_NUMBER
    return False
