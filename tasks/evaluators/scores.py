"""Scores of values by the evaluator of their problem: built in by name, or a user's class `module:CLASS`."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from tasks.errors import GraftError
from tasks.evaluators import choice, drop, expression, f1, number, text
from tasks.evaluators.number import Value
from tasks.records.problems import NUMBER, Answer, Problem
from tasks.records.programs import CheckVerdict
from tasks.sources.user_code import find_modules_in, new_instance
from tasks.sources.user_modules import digest_modules


class Evaluator(NamedTuple):
    """Two pure functions. `parse` raises ValueError for an answer that the evaluator cannot check."""

    parse: Callable[[Answer], Answer]  # an answer of a file → as the problem's record holds it
    score: Callable[[Any, Answer], float]  # (a value, an answer from `parse`) → in [0, 1], 1 = right
    wanted: str  # of a workflow's answer, for prompts


BUILT_IN = {
    NUMBER: Evaluator(number.parse, number.score, "a number"),
    "text": Evaluator(text.parse, text.score, "a short text"),
    "choice": Evaluator(choice.parse, choice.score, "the letter of the right choice"),
    "expression": Evaluator(expression.parse, expression.score, "a mathematical expression in LaTeX"),
    "f1": Evaluator(f1.parse, f1.score, "a short text"),
    "drop": Evaluator(drop.parse, drop.score, "a short text, a number or a date (several: one on each line)"),
}
"""Evaluators by their names in `problems.evaluator`."""


def score(problem: Problem, value: Value | CheckVerdict, root: Path | None = None) -> float:
    """The score of a value as an answer to the problem's own question, in [0, 1]; 1 = right.

    `root`: the project's folder, where a user's module is. Raises GraftError if a user's evaluator cannot be loaded,
    raises, returns anything else, or differs from the digest in the problem.
    """
    name = problem.evaluator
    if name in BUILT_IN:
        return BUILT_IN[name].score(value, problem.answer)
    evaluator = own_evaluator(root or Path.cwd(), name, problem.evaluator_sha256)
    try:
        share = float(evaluator.score(problem, value))
    except Exception as error:
        where = f"{name}: score of {value!r:.80} for problem {problem.problem_id}"
        raise GraftError(f"problems.evaluator: {where}: {type(error).__name__}: {error}; fix it") from error
    if not 0 <= share <= 1:
        raise GraftError(f"problems.evaluator: {name}: score is {share}, not from 0 to 1; fix it")
    return share


def wanted(name: str) -> str:
    """The answer that an evaluator wants, in words: "a number"."""
    return BUILT_IN[name].wanted if name in BUILT_IN else "the answer"


@lru_cache(64)
def own_evaluator(root: Path, name: str, sha256: str | None) -> Any:
    """An instance of the user's `module:CLASS`, constructed without arguments.

    Raises GraftError if there is none, if it has no `score`, or if its source differs from the digest.
    """
    module = name.partition(":")[0]
    if digest_modules(root, [module]) != sha256:
        raise GraftError(
            f"problems.evaluator: {module} is not the one that the problems were read with; graft retrain reads them "
            "again"
        )
    find_modules_in(root, name)
    evaluator = new_instance("problems.evaluator", name)
    if not callable(getattr(evaluator, "score", None)):
        raise GraftError(f"problems.evaluator: {name} has no score; define score(self, problem, value) from 0 to 1")
    return evaluator
