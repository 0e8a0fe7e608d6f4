"""Evaluation of a policy on problems: by `evaluate` on test, by `validate` on dev."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tasks.environments.lookup import environment_in
from tasks.environments.measures import gate_value
from tasks.evaluate.environment_measures import measure_means, named, with_pictures
from tasks.evaluate.summary import problem_outcome, summarise
from tasks.layout import Layout
from tasks.model.rollouts.attempts import evaluate_policy
from tasks.params.params import Params
from tasks.params.sections import Operators
from tasks.programs.efficiency import count_operations, mean_calls, mean_cost
from tasks.records.evaluation import Attempt, ProblemOutcome
from tasks.records.problems import Problem


class EvaluationResult(NamedTuple):
    """Outcomes in the order of the problems, the distinct workflows of each, and the metrics."""

    outcomes: list[ProblemOutcome]
    attempts: list[list[Attempt]]
    metrics: dict[str, float]


def evaluate_problems(
    layout: Layout, params: Params, folder: Path, problems: Sequence[Problem], stage_id: str
) -> EvaluationResult:
    """Let the policy in `folder` solve the problems; `stage_id` is recorded in the usage log."""
    setting = params.evaluation
    samples, temperature = setting.samples, setting.temperature
    rollouts = evaluate_policy(layout, params, folder, problems, stage_id, samples, temperature, play=True)
    environment = environment_in(layout.root, params)
    outcomes = [
        problem_outcome(problem, written, gate_value(environment, problem, written))
        for problem, written in zip(rollouts.problems, rollouts.attempts, strict=True)
    ]
    measured = measure_means(environment, rollouts.problems, rollouts.attempts, setting, params.seed)
    measured |= named(rollouts.played)
    numbers = summarise(outcomes, setting, params.seed) | rollouts.usage | measured
    if environment.asks_siblings:
        numbers |= efficiency_means(rollouts.attempts, params.operators)
    return EvaluationResult(outcomes, with_pictures(environment, rollouts.problems, rollouts.attempts), numbers)


def efficiency_means(attempts: Sequence[Sequence[Attempt]], operators: Operators) -> dict[str, float]:
    """Means over all samples, right or wrong, of the attempts [P][…].

    Operations are of the samples that are Python; calls and their cost are left out where no model serves operators,
    the cost also where `operators.price` is null.
    """
    sampled = [attempt for written in attempts for attempt in written if attempt.samples]
    known = [(a.samples, count) for a in sampled if (count := count_operations(a.code)) is not None]
    numbers: dict[str, float] = {}
    if known:
        numbers["operations_per_sample"] = sum(n * count for n, count in known) / sum(n for n, _ in known)
    if operators.backend == "none" or not sampled:
        return numbers
    total = sum(attempt.samples for attempt in sampled)
    numbers["model_calls_per_sample"] = sum(a.samples * mean_calls([a.result]) for a in sampled) / total
    if operators.price is not None:
        price = operators.price
        numbers["cost_per_1000_samples"] = 1000 * sum(a.samples * mean_cost([a.result], price) for a in sampled) / total
    return numbers
