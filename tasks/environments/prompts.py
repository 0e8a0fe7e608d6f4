"""Prompts: a question as an environment asks it, in the policy's own form, and the choice of worked examples."""

import ast
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from tasks.artifacts import read_json
from tasks.environments.protocol import Environment, Solved
from tasks.programs.code_blocks import parsed
from tasks.records.policy import PromptFormat
from tasks.records.problems import Problem

FILE = "prompt.json"
"""Name of the form in a policy's folder; a policy from scratch has none."""

SCRATCH = "scratch"


def read_format(policy: Path) -> PromptFormat | None:
    """The form of the prompts of a policy's folder; None for a policy from scratch."""
    return read_json(policy / FILE, PromptFormat) if (policy / FILE).exists() else None


def prompt_of(
    environment: Environment,
    form: PromptFormat | None,
    problem: Problem,
    base: str,
    served: bool = False,
    quote: Callable[[str], str] = str,
) -> str:
    """The prompt of a problem as text, special tokens included. `base` and `served`: see `Environment.prompt`.

    `quote`: marks the special tokens in what is asked.
    """
    if form is None:
        return quote(environment.prompt_for(problem, base, served))
    asked = environment.prompt_for(problem, base if form.instructions else SCRATCH, served)
    return f"{form.before}{quote(asked)}{form.after}{form.prefill}"


def cut_at_stop(text: str, stop: list[str]) -> str:
    """`text` up to the first stop string in it."""
    places = [place for mark in stop if (place := text.find(mark)) >= 0]
    return text[: min(places)] if places else text


def select_examples(solved: Sequence[Solved], count: int, show: Callable[[str, str], str]) -> list[tuple[str, str]]:
    """Up to `count` questions with their completions, each time the first of those that show most that is new.

    A code that is not shown yet comes before one that is, then one whose operators and functions are shown least: a
    base repeats what it sees, and what it never tries has no reward. `show`: (code, question) → completion.
    """
    left = [(problem, code, operations_in(code)) for problem, code in solved]
    examples: list[tuple[str, str]] = []
    shown = Counter[str]()
    while left and len(examples) < count:
        ranks = [(shown[code], max((shown[name] for name in names), default=0)) for _, code, names in left]
        problem, code, names = left.pop(ranks.index(min(ranks)))
        shown.update([code, *names])
        examples.append((problem.question, show(code, problem.question)))
    return examples


def operations_in(code: str) -> set[str]:
    """The arithmetic operators and the functions of a workflow, but `numbers`, with which each begins."""
    tree = parsed(code)  # None of the rest of a function that the question begins
    nodes = list(ast.walk(tree)) if tree else []
    operators = {type(node.op).__name__ for node in nodes if isinstance(node, ast.BinOp)}
    functions = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return operators | functions - {"numbers"}
