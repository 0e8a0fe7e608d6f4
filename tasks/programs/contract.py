"""The workflow contract: its name, and how a policy is asked for one."""

import hashlib
from collections.abc import Callable
from inspect import signature

from tasks.programs.operators.builtin import OPERATORS
from tasks.programs.operators.model_calls import MODEL_OPERATORS
from tasks.programs.sandbox.run_program import run

HEADER = "def solve(problem):\n    n = numbers(problem)\n"
"""How every workflow that the search builds begins; the statements below it are what is searched for."""

PARTS = [HEADER, *(f"    {v} = " for v in "abcdef"), "    return ", "n[", "]\n"]
PARTS += [f"{left} {operator} " for operator in "+-*/" for left in ("]", "")]
"""The parts of a statement, a token each: `    a = n[0] * n[1]` takes a policy from scratch seven instead of twelve."""

ALL_OPERATORS = {**OPERATORS, "run": run, **MODEL_OPERATORS}
"""Name → function of all that a workflow may call where a model serves operators, in the order of listing."""

_EXAMPLE = HEADER + "    total = n[0] * n[1]\n    return total\n"


def workflow_id(code: str) -> str:
    """16 hexadecimal digits of the code's sha256: the same code has the same name everywhere."""
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def prompt_of(question: str, base: str, served: bool = False) -> str:
    """What the policy reads before it writes a workflow.

    `base` is what it was first made of, as its lineage says. A policy made from scratch knows nothing but this task:
    its prompt is the question alone. Any other base is told the contract and the operators; `served`: those that a
    model serves among them.
    """
    if base == "scratch":
        return f"{question}\n"
    return f"{contract_of(served)}\nAnswer with the code only.\n\nProblem: {question}\n"


def contract_of(served: bool) -> str:
    """What a workflow is and what it may call, in words for a model; `served`: what a model serves too."""
    known = ALL_OPERATORS if served else OPERATORS
    operators = "\n".join(f"- {call_of(name, known[name])}: {first_line(known[name].__doc__)}" for name in known)
    return (
        "Write a Python function solve(problem) that takes the problem's text and returns its answer as a number.\n"
        "Read the quantities from the text, so that the function also solves the same problem with other quantities.\n"
        f"These functions are there already:\n{operators}\n\n"
        "For example, the problem\n"
        "A box holds 12 pens. How many pens are in 4 boxes?\n"
        f"is solved by\n```python\n{_EXAMPLE}```\n"
    )


def call_of(name: str, function: Callable[..., object]) -> str:
    """How an operator is called: `ask(instruction, text='')`."""
    return f"{name}({', '.join(str(p.replace(annotation=p.empty)) for p in signature(function).parameters.values())})"


def first_line(docstring: str | None) -> str:
    """What an operator does, in one line."""
    return (docstring or "").strip().partition("\n")[0]
