"""Means of an environment's own measures over the test problems, and its pictures."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from tasks.environments.protocol import Environment
from tasks.errors import GraftError
from tasks.records import Attempt, Problem

PREFIX = "measure/"
"""Of the names of these metrics: `measure/NAME/greedy`, `…/sampled`, both also of seen and of unseen templates."""

Measured = tuple[Problem, dict[str, float]]
"""A problem with the measures of its greedy completion, or their means over its samples."""


def measure_means(
    environment: Environment, problems: Sequence[Problem], attempts: Sequence[Sequence[Attempt]]
) -> dict[str, float]:
    """The mean of each measure over the problems that have it, of greedy completions and of samples.

    A problem's sample means weigh equally. Raises GraftError if the environment raises or gives no finite number.
    """
    greedy, sampled = list[Measured](), list[Measured]()
    for problem, written in zip(problems, attempts, strict=True):
        found = [(attempt, _measures(environment, problem, attempt.code)) for attempt in written]
        greedy += [(problem, numbers) for attempt, numbers in found if attempt.greedy]
        sampled.append((problem, _weighted([(attempt.samples, numbers) for attempt, numbers in found])))
    numbers = dict[str, float]()
    for kind, measured in (("greedy", greedy), ("sampled", sampled)):
        for part, seen in (("", None), ("_seen", True), ("_unseen", False)):
            own = [each for problem, each in measured if seen is None or problem.seen is seen]
            numbers |= {f"{PREFIX}{name}/{kind}{part}": mean for name, mean in _means(own).items()}
    return numbers if any(problem.seen is False for problem in problems) else _of_all(numbers)


def named(played: Mapping[str, float]) -> dict[str, float]:
    """The numbers of `Environment.play` by their names in the metrics."""
    return {f"{PREFIX}{name}/greedy": number for name, number in played.items()}


def with_pictures(
    environment: Environment, problems: Sequence[Problem], attempts: Sequence[Sequence[Attempt]]
) -> list[list[Attempt]]:
    """The attempts; greedy ones with a picture, where the environment draws one."""
    return [
        [
            attempt.model_copy(update={"picture": environment.picture(problem, attempt.code)})
            if attempt.greedy
            else attempt
            for attempt in written
        ]
        for problem, written in zip(problems, attempts, strict=True)
    ]


def _measures(environment: Environment, problem: Problem, text: str) -> dict[str, float]:
    try:
        numbers = environment.measures(problem, text)
    except Exception as error:
        raise GraftError(
            f"environment: {type(environment).__name__}.measures of {problem.problem_id} raised "
            f"{type(error).__name__}: {error}; fix it"
        ) from error
    for name, number in numbers.items():
        if not math.isfinite(number):
            raise GraftError(
                f"environment: {type(environment).__name__}.measures of {problem.problem_id}: {name} is {number}; give "
                "a finite number, or leave it out"
            )
    return numbers


def _weighted(found: Iterable[tuple[int, Mapping[str, float]]]) -> dict[str, float]:
    """Means over the samples that have a measure."""
    values: dict[str, list[float]] = defaultdict(list)
    for samples, numbers in found:
        for name, number in numbers.items():
            values[name] += [number] * samples
    return {name: fmean(own) for name, own in values.items() if own}


def _means(measured: Sequence[Mapping[str, float]]) -> dict[str, float]:
    values: dict[str, list[float]] = defaultdict(list)
    for numbers in measured:
        for name, number in numbers.items():
            values[name].append(number)
    return {name: fmean(own) for name, own in values.items()}


def _of_all(numbers: Mapping[str, float]) -> dict[str, float]:
    """Without those of seen templates: there are no others."""
    return {name: number for name, number in numbers.items() if not name.endswith("_seen")}
