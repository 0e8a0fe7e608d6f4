"""Choice of solved problems as the worked examples of a prompt."""

import ast
from collections import Counter
from collections.abc import Callable, Sequence

from tasks.environments.protocol import Solved
from tasks.programs.code_blocks import parsed


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
