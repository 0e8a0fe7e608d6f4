"""Means of an environment's own measures over the test problems, with intervals, and its pictures."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from statistics import fmean

from tasks.environments.measures import PREFIX, measures_of, measures_together, weighted_means
from tasks.environments.protocol import Environment
from tasks.params.sections import Evaluation
from tasks.records.evaluation import Attempt
from tasks.records.problems import Problem
from tasks.seeds import derive_seed
from tasks.statistics.intervals import mean_interval

ENDS = ("_low", "_high")
"""Suffixes of the names of the ends of intervals."""

ProblemMeasures = tuple[Problem, dict[str, float]]
"""A problem with the measures of its greedy completion, or their means over its samples."""


def is_level(name: str) -> bool:
    """Whether a metric is a measure over all test problems, neither an end of its interval nor of some templates."""
    return name.startswith(PREFIX) and not name.endswith(("seen", *ENDS))


def measure_means(
    environment: Environment,
    problems: Sequence[Problem],
    attempts: Sequence[Sequence[Attempt]],
    params: Evaluation,
    seed: int,
) -> dict[str, float]:
    """The mean of each measure over the problems that have it, of greedy completions and of samples.

    A problem's sample means weigh equally. Those of all problems whose values lie in [0, 1] have an interval. Raises
    GraftError if the environment raises or gives no finite number.
    """
    greedy, sampled = list[ProblemMeasures](), list[ProblemMeasures]()
    for problem, written in zip(problems, attempts, strict=True):
        measures = [(attempt, measures_of(environment, problem, attempt.code)) for attempt in written]
        greedy += [(problem, numbers) for attempt, numbers in measures if attempt.greedy]
        sampled.append((problem, weighted_means((attempt.samples, numbers) for attempt, numbers in measures)))
    parts = (("_seen", True), ("_unseen", False)) if any(problem.seen is False for problem in problems) else ()
    numbers = dict[str, float]()
    for kind, measured in (("greedy", greedy), ("sampled", sampled)):
        numbers |= _named(_by_name([means for _, means in measured]), kind, seed)
        for part, seen in parts:
            of_part = _by_name([means for problem, means in measured if problem.seen is seen])
            numbers |= {f"{PREFIX}{name}/{kind}{part}": fmean(values) for name, values in of_part.items()}
        texts = [_texts(written, kind) for written in attempts]
        numbers |= _named(measures_together(environment, problems, texts, params.ks), kind, seed)
    return numbers


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


def _texts(attempts: Sequence[Attempt], kind: str) -> list[str]:
    """The greedy completion, or the samples, each as often as it was drawn."""
    if kind == "greedy":
        return [attempt.code for attempt in attempts if attempt.greedy]
    return list(chain.from_iterable(repeat(attempt.code, attempt.samples) for attempt in attempts))


def _named(values: Mapping[str, Sequence[float]], kind: str, seed: int) -> dict[str, float]:
    """Means, with an interval if there are several values and all lie in [0, 1]."""
    numbers = dict[str, float]()
    for name, levels in values.items():
        key = f"{PREFIX}{name}/{kind}"
        numbers[key] = fmean(levels)
        if len(levels) > 1 and min(levels) >= 0 and max(levels) <= 1:
            estimate = mean_interval(levels, derive_seed(seed, "interval", key))
            numbers |= {f"{key}{end}": value for end, value in zip(ENDS, (estimate.low, estimate.high), strict=True)}
    return numbers


def _by_name(measured: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    values: dict[str, list[float]] = defaultdict(list)
    for numbers in measured:
        for name, number in numbers.items():
            values[name].append(number)
    return values
