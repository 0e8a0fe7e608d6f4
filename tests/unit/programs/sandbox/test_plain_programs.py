"""The allow-list of plain workflows: what it accepts, and nothing else."""

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.programs.contract import HEADER
from tasks.programs.efficiency import count_operations
from tasks.programs.sandbox.plain_programs import is_plain

PLAIN = [
    "return n[0] * n[1]", "a = -n[0] + 2.5\n    b = a // 3 % 4 - n[-1] / 7\n    return b", "return undefined_name",
    "return numbers(problem)", "return calculate('2 + 3')", "return majority([n[0], n[1], 3])",
    "n = n + n\n    return n[0]", "return n[0]\n    return n[1]", "a = 1",
]  # fmt: skip
NOT_PLAIN = [
    "n[0] = 1\n    return n", "n += n\n    return n", "a = b = n[0]\n    return a", "a, b = n\n    return a",
    "a: int = 1\n    return a", "global n\n    return n", "del n\n    return 1", "for x in n: pass", "while 1: pass",
    "if n: return 1", "try: return 1\n    except: pass", "import os", "pass", "n", "return", "return n.append",
    "return n.sort()", "return n[0:1]", "return n[n[0]]", "return n[True]", "return [n][0]", "return n[0] ** 2",
    "return n[0] < 1", "return n and 1", "return not n", "return ~n[0]", "return n[0] << 3", "return 1 if n else 2",
    "return [x for x in n]", "return (x := 1)", "return lambda: 1", "return f'{n}'", "return 'text'", "return 'a' * 10",
    "return b'a'", "return None", "return True", "return 1j", "return ...", "return 10 ** 13", f"return {10**12 + 1}",
    "return [1, 2]", "return {}", "return eval('1')", "return solve(problem)", "return print(1)",
    "return numbers(text=problem)", "return numbers(*n)", "return majority({1})", "return majority([[1]])",
    "return __builtins__", "__x = 1\n    return __x", "return numbers(problem).sort()", "return (numbers)(problem)(1)",
    "yield 1", "await n", f"return numbers('{'x' * 201}')",
    "return 1" + " + 1" * 80,  # over MAX_LINE
    "\n    ".join(["a = 1"] * 65),
]  # fmt: skip
SHAPES = [
    "", "x = 1\n", "x = 1\n" + HEADER + "    return 1\n", HEADER + "    return 1\nx = 1\n",
    "async def solve(problem):\n    return 1\n", "def answer(problem):\n    return 1\n", "def solve():\n    return 1\n",
    "def solve(question):\n    return 1\n", "def solve(problem, x):\n    return 1\n",
    "def solve(problem, /):\n    return 1\n", "def solve(*, problem):\n    return 1\n",
    "def solve(*problem):\n    return 1\n", "def solve(problem, **k):\n    return 1\n",
    "def solve(problem=print()):\n    return 1\n", "def solve(problem: print()):\n    return 1\n",
    "def solve(problem) -> print():\n    return 1\n", "@print\ndef solve(problem):\n    return 1\n",
    "class solve:\n    pass\n",
]  # fmt: skip
BROKEN = ["def solve(problem)\n    return 1\n", HEADER + "    return 1 +\n", "  x", "print(1))", "(" * 200]
LATER = ["def\tsolve[T](problem):\n    return 1\n", HEADER + "    return t'x'\n", "type X = 1\n"]
"""Syntax that Python 3.12 and 3.14 brought."""
BOMBS = [
    "(" * 4000, "-" * 4000 + "1", HEADER + "    return " + "(\n" * 1900 + "1" + ")" * 1900,
    HEADER + "    return (" + "-\n" * 1900 + "1)", HEADER + "    return (" + "1+\n" * 1300 + "1)",
    HEADER + "    return " + "9" * 230 + "\n", "\ud800", "#" * 5000,
]  # fmt: skip


REFUSED = [*(f"{HEADER}    {body}\n" for body in NOT_PLAIN), *SHAPES, *BOMBS]


@pytest.mark.parametrize("body", PLAIN)
def test_plain(body: str) -> None:
    assert is_plain(f"{HEADER}    {body}\n")


@pytest.mark.parametrize("code", REFUSED, ids=lambda code: repr(code[-60:]))
def test_not_plain(code: str) -> None:
    assert not is_plain(code)


@pytest.mark.parametrize("code", BROKEN)
def test_source_that_does_not_parse_needs_no_separate_child(code: str) -> None:
    assert is_plain(code)
    assert not is_plain(code + "#" * 5000)


@pytest.mark.parametrize("code", LATER)
def test_syntax_of_a_later_python_is_plain_only_where_it_does_not_parse(code: str) -> None:
    try:
        ast.parse(code)
    except SyntaxError:
        assert is_plain(code)
    else:
        assert not is_plain(code)


@pytest.mark.parametrize(
    "more", ["import math", "from math import pi", "class A: pass", "@print", "def f(): pass", "a = 1"]
)
def test_a_second_statement_at_the_top_is_not_plain_parsed_or_not(more: str) -> None:
    sound = HEADER + "    return n[0] == 1 or 2"
    for code in (f"{sound}\n{more}\n", f"{more}\n{sound}\n", f"{sound} +\n{more}\n"):
        assert not is_plain(code)


PIECES = [
    "n", "[", "]", "0", "1", ".", "a", "=", " ", "\n    ", "return ", "numbers", "(", ")", "problem", "+", "*", "'x'",
    ",",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
@settings(max_examples=300)
def test_a_plain_program_contains_no_node_with_lasting_effects(body: str) -> None:
    code = f"{HEADER}    {body}\n"
    try:
        nodes = list(ast.walk(ast.parse(code))) if is_plain(code) else []
    except SyntaxError:
        return
    forbidden = (ast.Attribute, ast.AugAssign, ast.Starred, ast.Pow, ast.Slice, ast.Tuple, ast.Lambda, ast.Delete)
    for node in nodes:
        assert not isinstance(node, forbidden)
        assert not (isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store))
        if isinstance(node, ast.Call):
            assert getattr(node.func, "id", "") in {"numbers", "calculate", "majority"}


def test_a_warning_of_the_parser_never_reaches_the_user(recwarn: pytest.WarningsRecorder) -> None:
    for expression in ("2n", "1if 2else 3"):
        code = f"def solve(problem):\n    return {expression}\n"
        assert (is_plain(code), count_operations(code)) == ((True, None) if expression == "2n" else (False, 0))
    assert not recwarn.list
