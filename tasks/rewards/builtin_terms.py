"""Built-in terms of the reward: `correctness`, `runs` and `length`, from the results of a workflow.

A term is in [0, 1], or None if it cannot be computed. Bad code earns 0: an exception, a program that is too slow or too
big, that kills itself or crashes the interpreter. If the sandbox died, a model gave no reply or the file was damaged,
the value is unknown: None, not 0.
"""

from collections.abc import Callable
from functools import partial

from tasks.environments.protocol import Environment, solved_share
from tasks.programs.answer_check import failure_reason
from tasks.records import NUMBER, Result, Trajectory

CHARACTERS_PER_TOKEN = 4
"""Assumed length of a token for completions without tokens."""

Term = Callable[[Trajectory, int], float | None]
"""(trajectory, member) → its value."""

COMMON = ("correctness", "runs", "length")
"""Terms of every environment, by the names of their weights in `params.yaml`."""


def terms_of(environment: Environment, max_new_tokens: int) -> dict[str, Term]:
    """The terms of COMMON in an environment."""
    return {"correctness": partial(correctness, environment), "runs": runs, "length": partial(length, max_new_tokens)}


def correctness(environment: Environment, trajectory: Trajectory, member: int) -> float | None:
    """Share of the problem and its siblings solved; if all have one answer, times the agreement with others."""
    results = results_of(trajectory, member)
    if failure_reason(results) is not None:
        return None
    share = solved_share(environment, trajectory.problem, results)
    return share * trajectory.agreement[member] if trajectory.agreement else share


def runs(trajectory: Trajectory, member: int) -> float | None:
    """1 if the workflow returned a number on the problem, right or wrong; where texts are wanted, any value."""
    result = trajectory.results[member]
    if failure_reason([result]) is not None:
        return None
    fits = isinstance(result.value, (int, float)) or trajectory.problem.evaluator != NUMBER
    return float(result.status == "ok" and fits)


def length(max_new_tokens: int, trajectory: Trajectory, member: int) -> float | None:
    """1 - tokens / max_new_tokens, at least 0; without tokens, characters of the code / 4."""
    tokens = len(trajectory.tokens[member]) or len(trajectory.workflow_codes[member]) / CHARACTERS_PER_TOKEN
    return max(0.0, 1 - tokens / max_new_tokens)


def results_of(trajectory: Trajectory, member: int) -> list[Result]:
    """Results of a member on the problem, then on its siblings."""
    return [trajectory.results[member], *trajectory.sibling_results[member]]
