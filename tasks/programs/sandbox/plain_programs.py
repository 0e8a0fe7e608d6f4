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
import warnings
from functools import lru_cache

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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # for what a model writes (`2n`)
            return _is_plain_module(ast.parse(code))
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
    if type(node) is ast.Assign:
        return len(node.targets) == 1 and _is_plain_name(node.targets[0]) and _is_plain_expression(node.value)
    return type(node) is ast.Return and node.value is not None and _is_plain_expression(node.value)


def _is_plain_expression(node: ast.expr) -> bool:
    kind = type(node)
    if kind is ast.Name:
        return _is_plain_name(node)
    if kind is ast.BinOp:
        assert isinstance(node, ast.BinOp)
        return type(node.op) in _BINARY and _is_plain_expression(node.left) and _is_plain_expression(node.right)
    if kind is ast.Subscript:
        assert isinstance(node, ast.Subscript)
        return _is_plain_name(node.value) and _is_index(node.slice)
    if kind is ast.Constant:
        return _is_number(node)
    if kind is ast.UnaryOp:
        assert isinstance(node, ast.UnaryOp)
        return type(node.op) is ast.USub and _is_plain_expression(node.operand)
    if kind is ast.Call:
        assert isinstance(node, ast.Call)
        return _is_operator(node.func) and not node.keywords and all(map(_is_plain_argument, node.args))
    return False


def _is_plain_argument(node: ast.expr) -> bool:
    if isinstance(node, ast.List):
        return all(map(_is_plain_expression, node.elts))
    if isinstance(node, ast.Constant) and type(node.value) is str:
        return len(node.value) <= MAX_STRING
    return _is_plain_expression(node)


def _is_plain_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and not node.id.startswith("__") and node.id not in _RESERVED


def _is_operator(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in OPERATORS


def _is_index(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value <= MAX_NUMBER


def _is_number(node: ast.expr) -> bool:
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
        return False
    return isinstance(node.value, int | float) and abs(node.value) <= MAX_NUMBER
