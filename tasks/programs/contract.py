"""The workflow contract: the id of a workflow, and the prompt for one."""

import hashlib
from collections.abc import Callable
from inspect import signature

from tasks.core.terminal import printable
from tasks.programs.operators.builtin import OPERATORS, context
from tasks.programs.sandbox.run_program import ALL_OPERATORS

HEADER = "def solve(problem):\n    n = numbers(problem)\n"
"""Beginning of every workflow built by the search; the search is over the statements below it."""

PARTS = [HEADER, *(f"    {v} = " for v in "abcdef"), "    return ", "n[", "]\n"]
PARTS += [f"{left} {operator} " for operator in "+-*/" for left in ("]", "")]
"""Parts of a statement that are one token each: `    a = n[0] * n[1]` is seven tokens instead of twelve."""

_QUANTITIES = (
    "Read the quantities from the text, so that the function also solves the same problem with other quantities.\n"
)
_EXAMPLE = HEADER + "    total = n[0] * n[1]\n    return total\n"


def workflow_id(code: str) -> str:
    """The first 16 hexadecimal digits of the code's sha256."""
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def prompt_of(question: str, base: str, served: bool = False, wanted: str = "a number", with_test: bool = False) -> str:
    """The prompt for a workflow.

    `base`: the base of the policy in its lineage. A policy from scratch knows only this task, so its prompt is the
    question alone. For any other base the prompt contains the contract and the operators; `served`: including those
    that call a model. `wanted`: the kind of answer. The operator `context` is listed where the question has one, `test`
    by `with_test`.
    """
    if base == "scratch":
        return f"{question}\n"
    contract = contract_of(served, wanted, bool(context(question)), with_test)
    return f"{contract}\nAnswer with the code only.\n\nProblem: {question}\n"


def contract_of(served: bool, wanted: str = "a number", with_context: bool = False, with_test: bool = False) -> str:
    """Description of the contract and the operators for a model; `served`: including those that call a model."""
    listed = ALL_OPERATORS if served else OPERATORS
    if not with_test:
        listed = {name: function for name, function in listed.items() if name != "test"}
    if not with_context:
        listed = {name: function for name, function in listed.items() if name != "context"}
    operators = "\n".join(
        f"- {call_of(name, function)}: {first_line(function.__doc__)}" for name, function in listed.items()
    )
    return (
        f"Write a Python function solve(problem) that takes the problem's text and returns its answer as {wanted}.\n"
        f"{_QUANTITIES if wanted == 'a number' else ''}"
        f"These functions are there already:\n{operators}\n\n"
        "For example, the problem\n"
        "A box holds 12 pens. How many pens are in 4 boxes?\n"
        f"is solved by\n```python\n{_EXAMPLE}```\n"
    )


def call_of(name: str, function: Callable[..., object]) -> str:
    """An operator's signature: `ask(instruction, text='')`."""
    return f"{name}({', '.join(str(p.replace(annotation=p.empty)) for p in signature(function).parameters.values())})"


def first_line(docstring: str | None) -> str:
    """The first line of a docstring."""
    return (docstring or "").strip().partition("\n")[0]


def line_of(code: str, width: int) -> str:
    """A workflow in one line of at most `width` characters, without the header of all and control characters."""
    lines = [" ".join(line.split()) for line in code.removeprefix(HEADER).splitlines() if line.strip()]
    short = printable("; ".join(lines))
    return short if len(short) <= width else f"{short[: width - 2]} …"
