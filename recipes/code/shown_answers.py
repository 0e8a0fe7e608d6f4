"""A program that knows the shown tests of a problem and no more."""

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from recipes.code.harness.cases import CANDIDATE
from tasks.programs.code_blocks import parsed, shown_tests


def lookup_program(question: str, answer: Mapping[str, Any]) -> str:
    """A function that returns what the shown tests say for their arguments, and None for others; "" without any.

    `answer`: the tests of a problem as its record has them; the question may show more.
    """
    name = answer["entry_point"]
    shown = dict.fromkeys([*answer["shown"], *shown_tests(question)])
    known = dict.fromkeys(pair for text in shown for pair in _pairs(text, {name, CANDIDATE}))
    rows = "".join(f"        (({args}), {value}),\n" for args, value in known)
    if not rows:
        return ""
    return (
        f"def {name}(*args, **kwargs):\n    for known, value in [\n{rows}    ]:\n"
        "        if known == (args, kwargs):\n            return value\n"
    )


def _pairs(text: str, names: set[str]) -> Iterator[tuple[str, str]]:
    """(arguments, value) of each comparison with a call in a text of tests, as code."""
    tree = parsed(text)
    for node in ast.walk(tree) if tree else ():
        match node:
            case ast.Assert(test=ast.Call() as call):
                sides: tuple[ast.expr, ast.expr] = (call, ast.Constant(True))
            case ast.Assert(test=ast.UnaryOp(op=ast.Not(), operand=ast.Call() as call)):
                sides = (call, ast.Constant(False))
            case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
                sides = (left, right) if isinstance(left, ast.Call) else (right, left)
            case _:
                continue
        match sides:
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords), value if name in names:
                named = ", ".join(f"{keyword.arg!r}: {ast.unparse(keyword.value)}" for keyword in keywords)
                if _are_literal([*args, *(keyword.value for keyword in keywords), value]):
                    yield f"({''.join(f'{ast.unparse(each)}, ' for each in args)}), {{{named}}}", ast.unparse(value)


def _are_literal(nodes: list[ast.expr]) -> bool:
    try:
        for node in nodes:
            ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True
