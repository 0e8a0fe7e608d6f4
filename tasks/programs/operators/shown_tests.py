"""Tests that a text shows: assert statements, and examples of docstrings. Standard library only."""

import ast
import re
from collections.abc import Iterator

_ARROW = re.compile(r"^(.+?\))\s*(?:==|=>|->|➞|→|=|returns?)\s*(.+?)\.?$")


def shown_tests(text: str) -> list[str]:
    """The tests in a text, each as an assert statement: those written so, `>>> f(2)` with the value below it,
    and `f(2) == 3` or `f(2) -> 3` on a line of its own. Arguments and values must be literals.
    """
    return list(dict.fromkeys(_tests(text.splitlines())))


def _tests(lines: list[str]) -> Iterator[str]:
    for place, whole in enumerate(lines):
        line = whole.strip()
        if line.startswith("assert ") and _parses(line):
            yield line
        elif line.startswith(">>> "):
            following = lines[place + 1].strip() if place + 1 < len(lines) else ""
            yield from _equation(line[4:], following)
        elif arrow := _ARROW.match(line):
            yield from _equation(arrow[1], arrow[2])


def _equation(call: str, value: str) -> Iterator[str]:
    try:
        ast.literal_eval(value)
        match ast.parse(call, mode="eval").body:
            case ast.Call(func=ast.Name(), args=args, keywords=[]):
                for each in args:
                    ast.literal_eval(each)
            case _:
                return
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return
    yield f"assert {call} == {value}"


def _parses(statement: str) -> bool:
    try:
        ast.parse(statement)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
    return True
