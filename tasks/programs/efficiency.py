"""Costs of a workflow: operations that it writes, calls of a model, and dollars.

Run time is not among them: it differs from run to run, and the same inputs have to give the same bytes.
"""

import ast
from collections.abc import Sequence
from typing import NamedTuple

from tasks.programs.code_blocks import parsed
from tasks.records.programs import Result

READER = "numbers"
"""The operator that reads the quantities, once in every workflow: it is not counted."""


def count_operations(code: str) -> int | None:
    """Arithmetic operations, comparisons and calls in a program as it is written; None if it is no Python.

    A loop counts once. Of a workflow of plain arithmetic it is the number of its operations.
    """
    tree = parsed(code)
    return sum(map(_operations, ast.walk(tree))) if tree else None


def _operations(node: ast.AST) -> int:
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return int(name != READER)
        case ast.BinOp() | ast.AugAssign() | ast.Call():
            return 1
        case ast.Compare(ops=compared):
            return len(compared)
    return 0


class Budget(NamedTuple):
    """The most that a workflow may cost on one question, from the params `operators`."""

    calls: int
    max_tokens: int  # of a reply
    price: tuple[float, float] | None  # dollars per million tokens of prompts and of replies

    @property
    def cost(self) -> float | None:
        """Dollars of all calls with the longest replies, prompts left out; None if the price is unknown."""
        return None if self.price is None else self.calls * self.max_tokens * self.price[1] / 1e6


def mean_calls(results: Sequence[Result]) -> float:
    """Calls of a model a question."""
    return sum(result.calls for result in results) / len(results)


def mean_cost(results: Sequence[Result], price: tuple[float, float]) -> float:
    """Dollars a question, as if every prompt had been sent."""
    tokens = [sum(r.prompt_tokens for r in results), sum(r.completion_tokens for r in results)]
    return sum(dollars * count for dollars, count in zip(price, tokens, strict=True)) / 1e6 / len(results)
