"""Outcomes of problems from attempts, and metrics of an evaluation from outcomes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from statistics import fmean

from tasks.params.sections import Evaluation
from tasks.programs.answer_check import number_of
from tasks.records.evaluation import Attempt, ProblemOutcome
from tasks.records.problems import Problem
from tasks.records.programs import CheckVerdict, Result
from tasks.seeds import derive_seed
from tasks.statistics.intervals import mean_interval
from tasks.statistics.pass_at_k import maj_at_k, pass_at_k

BASE = "base/"
"""Prefix of the metrics of `evaluate@before` that are of the base before a warm start."""

_maj_at_k = lru_cache(10_000)(maj_at_k)
"""Cached: many problems have equal counts, and a report computes them for several tables."""


def problem_outcome(problem: Problem, attempts: Sequence[Attempt], gate_value: float | None = None) -> ProblemOutcome:
    """The outcome of a problem from its attempts, of which exactly one is greedy."""
    (greedy,) = [a for a in attempts if a.greedy]
    return ProblemOutcome(
        problem_id=problem.problem_id,
        template=problem.template,
        seen=problem.seen,
        novelty=problem.novelty,
        greedy=greedy.right,
        siblings_passed=greedy.siblings_passed,
        samples=sum(a.samples for a in attempts),
        correct=sum(a.samples for a in attempts if a.right),
        invalid=sum(a.samples for a in attempts if a.result.status not in ("ok", "timeout")),
        timeouts=sum(a.samples for a in attempts if a.result.status == "timeout"),
        distinct=sum(a.samples > 0 for a in attempts),
        wrong=_wrong(attempts),
        operations=problem.operations,
        cut=sum(a.cut for a in attempts),
        gate_value=gate_value,
    )


def _wrong(attempts: Sequence[Attempt]) -> list[int]:
    """Number of samples of each wrong answer; numbers equal up to rounding are one answer."""
    votes = Counter[str]()
    for attempt in attempts:
        answer = None if attempt.right else _answer(attempt.result)
        if answer is not None and attempt.samples:
            votes[answer] += attempt.samples
    return sorted(votes.values(), reverse=True)


def _answer(result: Result) -> str | None:
    number = number_of(result)
    if number is not None:
        return f"{number:.9g}"
    return str(result.value).strip() if result.status == "ok" and isinstance(result.value, str | CheckVerdict) else None


def measures(outcomes: Sequence[ProblemOutcome], ks: Sequence[int]) -> dict[str, list[float]]:
    """Each measure by its name in the metrics file, with its value for each problem that has one.

    `pass_at_1_greedy` is the accuracy at temperature 0, `pass_at_1` the unbiased estimate c/n from the samples and
    `maj_at_k`, for k > 1, the probability that the most frequent answer of k samples is right. `…_operations_2` covers
    the problems whose reference solution takes two operations, `…_unseen` those whose template is new and, of the
    grammar of events, `…_new_phrasing` and `…_new_composition` the two kinds of these. Measures without any problem
    have an empty list.
    """
    lengths = sorted({o.operations for o in outcomes if o.operations is not None})
    return {
        "pass_at_1_greedy": [float(o.greedy) for o in outcomes],
        "pass_at_1_greedy_seen": [float(o.greedy) for o in outcomes if o.seen is True],
        "pass_at_1_greedy_unseen": [float(o.greedy) for o in outcomes if o.seen is False],
        "pass_at_1_greedy_new_phrasing": [float(o.greedy) for o in outcomes if o.novelty == "phrasing"],
        "pass_at_1_greedy_new_composition": [float(o.greedy) for o in outcomes if o.novelty == "composition"],
        **{
            f"pass_at_1_greedy_operations_{n}": [float(o.greedy) for o in outcomes if o.operations == n]
            for n in lengths
        },
        "siblings_passed": [float(o.siblings_passed) for o in outcomes if o.siblings_passed is not None],
        **{f"pass_at_{k}": [pass_at_k(o.samples, o.correct, k) for o in outcomes] for k in ks},
        **{f"maj_at_{k}": [_maj_at_k(o.samples, o.correct, tuple(o.wrong), k) for o in outcomes] for k in ks if k > 1},
    }


def summarise(outcomes: Sequence[ProblemOutcome], params: Evaluation, seed: int) -> dict[str, float]:
    """All metrics of an evaluation by their names in the metrics file; unknown ones are left out."""
    samples = sum(o.samples for o in outcomes)
    numbers: dict[str, float] = {
        "problems": len(outcomes),
        "sampled_mean": sum(o.correct for o in outcomes) / samples,
        "invalid": sum(o.invalid for o in outcomes) / samples,
        "timeouts": sum(o.timeouts for o in outcomes) / samples,
        "cut": sum(o.cut for o in outcomes) / samples,
        "distinct": sum(o.distinct for o in outcomes) / len(outcomes),
        **{f"answers_at_{k}": fmean(answers_at_k(o, k) for o in outcomes) for k in params.ks},
    }
    for name, values in measures(outcomes, params.ks).items():
        if values:
            estimate = mean_interval(values, derive_seed(seed, "interval", name))
            numbers |= {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    return numbers


def answers_at_k(outcome: ProblemOutcome, k: int) -> float:
    """Expected number of different answers among k of its samples; an error is no answer."""
    return sum(pass_at_k(outcome.samples, count, k) for count in (outcome.correct, *outcome.wrong))


def remarks(numbers: Mapping[str, float], ks: Sequence[int]) -> list[str]:
    """Warnings about the metrics of an evaluation."""
    mean, most = numbers["sampled_mean"], max(ks)
    if most > 1 and 0 < mean < 1 and numbers[f"pass_at_{most}"] - mean < 1e-9:
        return [
            f"pass@{most} is pass@1 ({mean:.3f}): all samples of a problem are right or all are wrong, so more of them "
            "find no more; raise evaluation.temperature, or update.entropy where training made them alike"
        ]
    return []
