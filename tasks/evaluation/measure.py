"""Measuring a policy on problems: what `evaluate` does on test and `validate` on dev."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tasks.evaluation.summary import problem_outcome, summarise
from tasks.layout import Layout
from tasks.model.rollouts.evaluate_policy import trial
from tasks.params.params import Params
from tasks.records import Attempt, Problem, ProblemOutcome


class EvaluationResult(NamedTuple):
    """Outcomes in the order of the problems, the distinct workflows of each, and the numbers of them all."""

    outcomes: list[ProblemOutcome]
    attempts: list[list[Attempt]]
    numbers: dict[str, float]


def evaluate_problems(
    layout: Layout, params: Params, folder: Path, problems: Sequence[Problem], address: str
) -> EvaluationResult:
    """Let the policy in `folder` solve the problems; `address` is the stage that asks. Raises as `trial` does."""
    own = params.evaluation
    tried = trial(layout, params, folder, problems, address, own.samples, own.temperature)
    outcomes = [
        problem_outcome(problem, written) for problem, written in zip(tried.problems, tried.attempts, strict=True)
    ]
    return EvaluationResult(outcomes, tried.attempts, summarise(outcomes, own, params.seed) | tried.asked)
