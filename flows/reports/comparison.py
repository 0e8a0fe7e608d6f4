"""Comparison of runs: params that differ, and changes on the same test problems with paired intervals and p-values."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from flows.reports.run_record import WHENS, RunRecord, When
from tasks.environments.measures import PREFIX
from tasks.errors import GraftError
from tasks.evaluate.summary import measures
from tasks.records.evaluation import ProblemOutcome
from tasks.seeds import derive_seed
from tasks.statistics.intervals import CONFIDENCE, RESAMPLE_BATCH, RESAMPLES, Estimate, difference_interval

MEASUREMENT_PARAMS = ("evaluation.temperature", "policy.max_new_tokens", "operators", "sandbox")
"""Params, or sections, that change the measurement and not only the training."""

ABSENT = "–"

COSTS = {
    "operations_per_sample": "operations",
    "model_calls_per_sample": "model calls",
    "cost_per_1000_samples": "dollars per 1,000",
}
"""Metric → title, of a sample: the less, the better."""

LEGEND = (
    f"Problem by problem on the same test problems; in brackets the paired bootstrap interval of {100 * CONFIDENCE:g} "
    f"% of the change. p: how often a change at least as large comes up if each problem's two results change places at "
    f"random (sign-flip test, {RESAMPLES} draws or, where there are fewer, every pattern); it is not corrected for "
    "reading many."
)
"""Explanation of the numbers in a contrast."""


class Side(NamedTuple):
    """A run in a comparison."""

    letter: str  # its name in tables and charts
    name: str  # as given by the user
    record: RunRecord


class Change(NamedTuple):
    """A measure of two sets of outcomes over the same M problems."""

    name: str  # as in the metrics file
    problems: int  # M: problems for which both have the measure
    first: float  # means
    second: float
    difference: Estimate  # second − first, with its paired bootstrap interval
    values: tuple[list[float], list[float]]  # of each problem, first and second
    seed: int

    @property
    def p(self) -> float:
        """The p-value of the sign-flip test."""
        first, second = self.values
        return sign_flip_p(second, first, self.seed)


class Contrast(NamedTuple):
    """The changes from one set of outcomes to another."""

    first: str
    second: str
    changes: list[Change]


def make_sides(named: Sequence[tuple[str, RunRecord]]) -> list[Side]:
    """Letter the runs A, B, … in the order given. Raises GraftError if outcomes are of different problems."""
    sides = [Side(chr(ord("A") + i), name, record) for i, (name, record) in enumerate(named)]
    first = sides[0]
    for side in sides[1:]:
        if side.record.test_sha256 != first.record.test_sha256:
            raise GraftError(
                f"{first.name} and {side.name}: tested on different problems (run/problems/test.jsonl has sha256 "
                f"{first.record.test_sha256[:12]}… and {side.record.test_sha256[:12]}…), so their numbers cannot be "
                "compared; run one again with the other's seed and problems params"
            )
    for side in sides:
        for other, when in ((side, WHENS[0]), (first, WHENS[1])):
            if not side.record.tested(WHENS[1]) & other.record.tested(when):
                raise GraftError(
                    f"{side.name}: none of the problems of its outcomes after the run is among those of {other.name} "
                    f"{when} it; one of the two was edited: run graft stage evaluate there"
                )
    return sides


def differing_params(sides: Sequence[Side]) -> dict[str, list[str]]:
    """Params that differ → their value in each run; ABSENT if a run, of another version of Graft, has none."""
    names = sorted({name for side in sides for name in side.record.params})
    rows = {name: [side.record.params.get(name, ABSENT) for side in sides] for name in names}
    return {name: values for name, values in rows.items() if len(set(values)) > 1}


def contrasts(sides: Sequence[Side]) -> list[Contrast]:
    """For one run, after against before, and what came before against the base where a warm start did; otherwise each
    run against the first, all after.
    """
    first = sides[0]
    if len(sides) == 1:
        *earlier, before, after = first.record.policies()
        warm = [Contrast(base, before, _changes((first.record, "base"), (first.record, "before"))) for base in earlier]
        return [Contrast(before, after, changes(first.record)), *warm]
    return [
        Contrast(first.letter, other.letter, _changes((first.record, "after"), (other.record, "after")))
        for other in sides[1:]
    ]


def changes(record: RunRecord) -> list[Change]:
    """What a run changed: after against before."""
    return _changes((record, "before"), (record, "after"))


def policy_levels(record: RunRecord) -> list[list[str]]:
    """The measures of base, warm start and final policy with their intervals, titles first; [] without a warm start."""
    if "base" not in record.outcomes:
        return []
    policies, names = record.policies(), [measure.name for measure in changes(record)]
    rows = ([title_of(name), *(level_with_interval(numbers, name) for numbers in policies.values())] for name in names)
    return [["measure", *policies], *rows]


def remarks(sides: Sequence[Side]) -> list[str]:
    """Remarks on params that make the numbers incomparable."""
    names = [name for name in differing_params(sides) if name.startswith(MEASUREMENT_PARAMS)]
    remark = f"{', '.join(names)} differ{'s' if len(names) == 1 else ''}: the runs were not measured in the same way."
    return [remark] if names else []


def _changes(first: tuple[RunRecord, When], second: tuple[RunRecord, When]) -> list[Change]:
    """Every measure that both have for some problem."""
    evaluation = first[0].evaluation
    ks = [k for k in evaluation.ks if k in second[0].evaluation.ks]
    before, after = (_by_problem(record.outcomes[when], ks) for record, when in (first, second))
    changes = []
    for name in before:
        both = [problem for problem in before[name] if problem in after.get(name, {})]
        if both:
            old, new = [before[name][p] for p in both], [after[name][p] for p in both]
            seed = derive_seed(evaluation.seed, "change", name)
            difference = difference_interval(new, old, seed)
            means = (sum(old) / len(old), sum(new) / len(new))
            changes.append(Change(name, len(both), *means, difference, (old, new), seed))
    return changes


def _by_problem(outcomes: Sequence[ProblemOutcome], ks: Sequence[int]) -> dict[str, dict[str, float]]:
    """Measure → problem → value, measures in the order of the report."""
    by_measure: dict[str, dict[str, float]] = {name: {} for name in measures(outcomes, ks)}
    for outcome in outcomes:
        for name, values in measures([outcome], ks).items():
            if values:
                by_measure[name][outcome.problem_id] = values[0]
    return by_measure


def sign_flip_p(after: Sequence[float], before: Sequence[float], seed: int) -> float:
    """Two-sided p-value of the paired permutation test of mean(after − before) = 0 over M problems.

    Under the null hypothesis a problem's two values may be swapped, which flips the sign of its difference. p is the
    share of the 2^m sign patterns of the m nonzero differences whose sum is at least as far from 0. If there are more
    than RESAMPLES patterns, that many are drawn and the observed one is added, so p > 0. For 0/1 values this is
    McNemar's exact test. Raises ValueError if the lengths differ.
    """
    import numpy as np
    from scipy.stats import permutation_test

    differences = [a - b for a, b in zip(after, before, strict=True) if a != b]
    if len(differences) < 2:
        return 1.0  # both signs of one difference are equally far from 0; scipy needs two
    tested = permutation_test(
        (np.asarray(differences, dtype=np.float64),),
        np.sum,
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=RESAMPLE_BATCH,
        rng=np.random.default_rng(seed),
    )
    return float(tested.pvalue)


def title_of(measure: str) -> str:
    """`pass_at_5` → `pass@5 sampled`, `…_operations_2` → `… operations: 2`."""
    title = re.sub(r"_at_(\d+)", r"@\1", re.sub(r"_operations_(\d+)$", r" operations: \1", measure))
    return (f"{title} sampled" if re.fullmatch(r"\w+@\d+", title) else title).replace("_", " ")


def mean_titles(measures: Iterable[str]) -> dict[str, str]:
    """Metric → title of the costs of a sample and of an environment's own measures."""
    return COSTS | {name: name.removeprefix(PREFIX).replace("/", " ").replace("_", " ") for name in measures}


def level(value: float) -> str:
    return f"{value:.3f}"


def level_with_interval(metrics: Mapping[str, float], name: str) -> str:
    """`0.495 (0.42–0.56)`, with the interval if there is one; ABSENT if the measure is."""
    if name not in metrics:
        return ABSENT
    low, high = metrics.get(f"{name}_low"), metrics.get(f"{name}_high")
    return level(metrics[name]) + ("" if low is None or high is None else f" ({low:.2f}–{high:.2f})")


def change(estimate: Estimate) -> str:
    """`+0.100 (+0.06 … +0.14)`."""
    return f"{estimate.mean:+.3f} ({estimate.low:+.2f} … {estimate.high:+.2f})"


def p_value(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"
