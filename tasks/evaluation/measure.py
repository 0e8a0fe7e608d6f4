"""Measuring a policy on problems: what `evaluate` does on test and `validate` on dev."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tasks.evaluation.summary import outcome_of, summarise
from tasks.layout import Layout
from tasks.model.rollouts.evaluate_policy import trial
from tasks.params.params import Params
from tasks.records import Attempt, Outcome, Problem


class Measured(NamedTuple):
    """Outcomes in the order of the problems, the distinct workflows of each, and the numbers of them all."""

    outcomes: list[Outcome]
    attempts: list[list[Attempt]]
    numbers: dict[str, float]


def measure(layout: Layout, params: Params, folder: Path, problems: Sequence[Problem], address: str) -> Measured:
    """Let the policy in `folder` solve the problems; `address` is the stage that asks. Raises as `trial` does."""
    own = params.evaluation
    tried = trial(layout, params, folder, problems, address, own.samples, own.temperature)
    outcomes = [outcome_of(problem, written) for problem, written in zip(tried.problems, tried.attempts, strict=True)]
    return Measured(outcomes, tried.attempts, summarise(outcomes, own, params.seed) | tried.asked)
