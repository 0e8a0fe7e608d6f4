"""The code in a completion, as instruct models write them: which blocks it is, in linear time."""

import ast
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.environments.lookup import environment_of
from tasks.programs.code_blocks import code_of, defined_names, lacking_names, provided_names
from tests.support.completions import CODE, COMPLETIONS, NAME

PIECES = [
    "```", "```python", "```text", "~~~", "\n", "\n\n", "def f(x):", " pass", "  ", "x = 1", "import x", "<code>",
    "</code>", '"""', "'", "`", "f = y", "    ", "Done.", "<think>", "</think>", "[A]",
]  # fmt: skip
LONG, MANY = 100_000, 5_000
HOSTILE = {
    "backticks": "`" * LONG, "backticks in a line": f"f {'`' * LONG} f", "tildes": "~" * LONG,
    "blanks": f"{' ' * LONG}f", "blank lines": " \n" * LONG, "tags": "<f" * LONG, "parentheses": "f(" * LONG,
    "brackets": "[F]\n[" * LONG,
    "languages": "```py" * LONG, "fences": "```\n" * LONG, "closing fences": "f```\n" * MANY, "lines": "f\n\n" * MANY,
    "inline code": "`f " * MANY, "broken blocks": "```python\ndef f(x) pass\n" * MANY,
    "docstrings": '"""f\n```\n' * MANY,
    "blocks that need the next": "".join(f"```\ndef g{i}(): return g{i + 1}\n" for i in range(MANY)) + "```\nf = g0",
}  # fmt: skip


@pytest.mark.parametrize("name", COMPLETIONS)
def test_the_code_is_what_the_completion_means(name: str) -> None:
    text, code = COMPLETIONS[name]
    assert code_of(text, NAME) == code
    assert code_of(code, NAME) == code
    if "<think>" not in text:
        assert code_of(f"<think>\n```python\ndef f(x): return x\n```\n</think>\n{text}", NAME) == code


def test_a_workflow_is_what_defines_solve() -> None:
    imports, solve = "from math import floor\n", "def solve(problem): return floor(2)\n"
    text = f"```text\n3 pens\n```\n```python\n{imports}```\n```python\n{solve}```\n```python\nprint(solve('3'))\n```\n"
    assert environment_of("workflow").text(text) == f"{imports}\n{solve}"


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_the_code_of_code_is_itself(text: str) -> None:
    code = code_of(text, NAME)
    assert code_of(code, NAME) == code
    assert code == "" or (code.endswith("\n") and code.strip())


@given(st.lists(st.sampled_from(PIECES)).map("".join), st.sampled_from(["", "python", "py", "text"]))
def test_one_block_and_plain_code_are_taken_as_they_are(prose: str, language: str) -> None:
    assert code_of(CODE, NAME) == code_of(f"```{language}\n{CODE}```", NAME) == CODE
    if "`" not in prose and "~" not in prose and '"""' not in prose and "f" not in prose:
        assert code_of(f"{prose}\n```{language}\n{CODE}```\n{prose}", NAME) == CODE


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_read_in_linear_time(name: str) -> None:
    begun = time.process_time()
    code_of(HOSTILE[name], NAME)
    assert time.process_time() - begun < 10  # the slowest takes a second; quadratic time would take minutes


def test_names() -> None:
    code = "import os.path, re as r\nA, (b, *c) = 1, (2, 3)\nd: int = 4\nx.y = z[0] = 5\ndel q\n"
    code += "def f(g): return g + h + len(A)\nclass K: m = [i for i in K2]\ntry: pass\nexcept E as e: e\n"
    tree = ast.parse(code)
    assert defined_names(tree) == {"A", "b", "c", "d", "f", "K"}
    assert provided_names(tree) == defined_names(tree) | {"os", "r"}
    assert lacking_names(tree) == {"x", "z", "h", "K2", "E"}
