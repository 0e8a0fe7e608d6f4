"""Built-in terms of the reward, from the results of a workflow.

A term is in [0, 1], or None if it cannot be computed. Bad code earns 0: an exception, a program that is too slow or too
big, that kills itself or crashes the interpreter. If the sandbox died, a model gave no reply or the file was damaged,
the value is unknown: None, not 0.

`efficiency` is a share of `correctness`: what a wrong program saves is worth nothing.
"""

from collections.abc import Callable
from functools import partial

from tasks.environments.protocol import Environment, solved_share
from tasks.programs.answer_check import failure_reason
from tasks.programs.efficiency import Budget, count_operations, mean_cost
from tasks.records.problems import NUMBER, Problem
from tasks.trajectories import Member

COMMON = ("correctness", "runs", "efficiency")
"""The built-in terms, by the names of their weights in `params.yaml`."""


def terms_of(environment: Environment, budget: Budget) -> dict[str, Callable[[Problem, Member], float | None]]:
    """The terms of COMMON in an environment: (problem, member) → value."""
    return {
        "correctness": partial(correctness, environment),
        "runs": runs,
        "efficiency": partial(efficiency, environment, budget),
    }


def correctness(environment: Environment, problem: Problem, member: Member) -> float | None:
    """Share of the problem and its siblings solved; if all have one answer, times the agreement with others."""
    if failure_reason(member.results) is not None:
        return None
    share = solved_share(environment, problem, member.results)
    return share if member.agreement is None else share * member.agreement


def runs(problem: Problem, member: Member) -> float | None:
    """1 if the workflow returned a number on the problem, right or wrong; where texts are wanted, any value."""
    result = member.result
    if failure_reason([result]) is not None:
        return None
    fits = isinstance(result.value, (int, float)) or problem.evaluator != NUMBER
    return float(result.status == "ok" and fits)


def efficiency(environment: Environment, budget: Budget, problem: Problem, member: Member) -> float | None:
    """correctness / (1 + the operations and calls that the program writes); where a model's replies have a price,
    correctness · (1 - dollars a question / those of operators.calls replies of operators.max_tokens), at least 0."""
    right = correctness(environment, problem, member)
    if right is None:
        return None
    if budget.price is not None and budget.cost:
        return right * max(0.0, 1 - mean_cost(member.results, budget.price) / budget.cost)
    count = count_operations(member.code)
    return 0.0 if count is None else right / (1 + count)
