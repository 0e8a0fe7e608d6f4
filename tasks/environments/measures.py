"""An environment's own numbers on completions, checked: of each, of a problem's samples, and of all together."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from tasks.environments.protocol import Environment
from tasks.errors import GraftError
from tasks.records.evaluation import Attempt
from tasks.records.problems import Problem

PREFIX = "measure/"
"""Of the names of these metrics: `measure/NAME/greedy`, `…/sampled`, both also of seen and of unseen templates."""


LONGEST_NAME = 100
"""Characters of a measure's name."""

_NAME = re.compile(r"\w[\w .-]*(?:/\w[\w .-]*)*")


def sample_level(metrics: Mapping[str, float], name: str) -> float:
    """A measure of the samples among the metrics of an evaluation. Raises GraftError if it is not there."""
    try:
        return metrics[f"{PREFIX}{name}/sampled"]
    except KeyError:
        raise GraftError(
            f"environment: promotion needs the measure {name} of all samples; give it in measures_of_all"
        ) from None


def measures_of(environment: Environment, problem: Problem, text: str) -> dict[str, float]:
    """`Environment.measures`. Raises GraftError if it raises, or gives no name or no finite number."""
    where = f"{type(environment).__name__}.measures of {problem.problem_id}"
    try:
        numbers = environment.measures(problem, text)
    except Exception as error:
        raise GraftError(f"environment: {where} raised {type(error).__name__}: {error}; fix it") from error
    for name, number in numbers.items():
        _check(where, name, [number])
    return numbers


def measures_together(
    environment: Environment, problems: Sequence[Problem], texts: Sequence[Sequence[str]], ks: Sequence[int]
) -> dict[str, list[float]]:
    """`Environment.measures_of_all`, a number as a list of one.

    Raises GraftError if it raises, or gives no name, no finite number or not one for each problem.
    """
    where = f"{type(environment).__name__}.measures_of_all"
    try:
        measures = {
            name: [value] if isinstance(value, int | float) else list(value)
            for name, value in environment.measures_of_all(problems, texts, ks).items()
        }
    except Exception as error:
        raise GraftError(f"environment: {where} raised {type(error).__name__}: {error}; fix it") from error
    for name, values in measures.items():
        if len(values) not in (1, len(problems)):
            raise GraftError(
                f"environment: {where}: {len(values)} values of {name} for {len(problems)} problems; give a number, or "
                "one for each problem"
            )
        _check(where, name, values)
    return measures


def gate_value(environment: Environment, problem: Problem, attempts: Sequence[Attempt]) -> float | None:
    """The measure of the environment's gate, over the samples of a problem; None without a gate.

    Raises GraftError if the environment does not give it.
    """
    if environment.gate is None:
        return None
    measures = ((attempt.samples, measures_of(environment, problem, attempt.code)) for attempt in attempts)
    mean = weighted_means(measures).get(environment.gate.measure)
    if mean is None or not 0 <= mean <= 1:
        raise GraftError(
            f"environment: {type(environment).__name__}.measures of {problem.problem_id}: {environment.gate.measure} "
            f"is {mean}, and promotion compares it; give a number in [0, 1] for every completion"
        )
    return mean


def weighted_means(counted: Iterable[tuple[int, Mapping[str, float]]]) -> dict[str, float]:
    """Means over the samples that have a measure, from (number of samples, their measures)."""
    values: dict[str, list[float]] = defaultdict(list)
    for samples, numbers in counted:
        for name, number in numbers.items():
            values[name] += [number] * samples
    return {name: fmean(column) for name, column in values.items() if column}


def _check(where: str, name: str, values: Iterable[float]) -> None:
    """Raise GraftError for a name that trackers refuse, with all other metrics, or a value that is not finite."""
    if not (isinstance(name, str) and len(name) <= LONGEST_NAME and _NAME.fullmatch(name)):
        raise GraftError(
            f"environment: {where}: {name!r:.{LONGEST_NAME}} is no name of a measure; write {LONGEST_NAME} letters, "
            "digits, blanks and _ . - at most, parts with / between them"
        )
    for value in values:
        if not math.isfinite(value):
            raise GraftError(f"environment: {where}: {name} is {value}; give a finite number, or leave it out")
