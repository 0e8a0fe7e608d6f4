"""The workflow contract: its name, how a policy is asked for one, how it is read from what the policy wrote."""

import hashlib
import re

from tasks.workflows.operators import OPERATORS

HEADER = "def solve(problem):\n    n = numbers(problem)\n"
"""How every workflow that the search builds begins; the statements below it are what is searched for."""

_FENCED = re.compile(r"^[ \t]*```[\w+-]*[ \t]*\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*```.*$", re.MULTILINE)
_EXAMPLE = HEADER + "    total = n[0] * n[1]\n    return total\n"


def workflow_id(code: str) -> str:
    """16 hexadecimal digits of the code's sha256: the same code has the same name everywhere."""
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def code_of(text: str) -> str:
    """The workflow in a completion.

    Code between ``` fences where there is any: the first block that defines `solve`, else the first one. An
    unclosed fence ends with the text; a fence around nothing is dropped. Blank lines around the code and blanks at
    its end go; one new line ends it. A blank completion gives "". `code_of(code_of(text)) == code_of(text)`.
    Lone surrogates, which no file can hold, become U+FFFD.
    """
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\r\n", "\n")
    blocks = [block for block in _FENCED.findall(text) if block.strip()]
    chosen = next((block for block in blocks if "def solve" in block), None)
    if chosen is None:
        chosen = blocks[0] if blocks else _FENCE.sub("", text)
    stripped = re.sub(r"\A(?:[^\S\n]*\n)+", "", chosen).rstrip()
    return f"{stripped}\n" if stripped else ""


def prompt_of(question: str, base: str) -> str:
    """What the policy reads before it writes a workflow.

    A policy made from scratch knows nothing but this task: its prompt is the question alone. Any other base is told
    the contract and the operators.
    """
    if base == "scratch":
        return f"{question}\n"
    operators = "\n".join(f"- {name}: {first_line(function.__doc__)}" for name, function in OPERATORS.items())
    return (
        "Write a Python function solve(problem) that takes the problem's text and returns its answer as a number.\n"
        "Read the quantities from the text, so that the function also solves the same problem with other quantities.\n"
        f"These functions are there already:\n{operators}\n\n"
        "For example, the problem\n"
        "A box holds 12 pens. How many pens are in 4 boxes?\n"
        f"is solved by\n```python\n{_EXAMPLE}```\n\n"
        f"Answer with the code only.\n\nProblem: {question}\n"
    )


def first_line(docstring: str | None) -> str:
    """What an operator does, in one line."""
    return (docstring or "").strip().partition("\n")[0]
