"""Runs side by side: which params differ, what changed on the same test problems, and whether that may be chance."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from flows.reports.run_record import RunRecord, When
from tasks.errors import GraftError
from tasks.evaluation.summary import measures
from tasks.records import ProblemOutcome
from tasks.seeds import derive_seed
from tasks.statistics.intervals import RESAMPLE_BATCH, Estimate, difference_interval

MEASURING = ("evaluation.temperature", "policy.max_new_tokens", "operators", "sandbox")
"""Params, or sections of them, that change what is measured and not only what was learnt."""

ABSENT = "–"


class Side(NamedTuple):
    """A run in a comparison."""

    letter: str  # what tables and pictures call it
    name: str  # as the user named it
    account: RunRecord


class ParamRow(NamedTuple):
    """A param that is not the same everywhere; `values` has one for each run."""

    name: str
    values: list[str]


class Change(NamedTuple):
    """A measure of two sets of outcomes over the same M problems."""

    name: str  # as in the metrics file
    problems: int  # M: those that both know the measure of
    first: float  # means
    second: float
    difference: Estimate  # second − first, with its paired bootstrap interval
    p: float  # of the sign-flip test


class Contrast(NamedTuple):
    """What changed from one set of outcomes to another."""

    first: str
    second: str
    changes: list[Change]


def make_sides(named: Sequence[tuple[str, RunRecord]]) -> list[Side]:
    """Lettered A, B, … in the order given. Raises GraftError where two were not tested on the same problems."""
    sides = [Side(chr(ord("A") + i), name, account) for i, (name, account) in enumerate(named)]
    first = sides[0]
    for side in sides[1:]:
        if side.account.test_sha256 != first.account.test_sha256:
            raise GraftError(
                f"{first.name} and {side.name}: tested on different problems (run/problems/test.jsonl has sha256 "
                f"{first.account.test_sha256[:12]}… and {side.account.test_sha256[:12]}…), so their numbers cannot be "
                "compared; run one again with the other's seed and problems params"
            )
    return sides


def differing_params(sides: Sequence[Side]) -> list[ParamRow]:
    """The params that differ, by name. What a run does not have, as it is of another version, is ABSENT."""
    names = sorted({name for side in sides for name in side.account.params})
    rows = [ParamRow(name, [side.account.params.get(name, ABSENT) for side in sides]) for name in names]
    return [row for row in rows if len(set(row.values)) > 1]


def contrasts(sides: Sequence[Side]) -> list[Contrast]:
    """After the run against before it where there is one, else each run against the first, all after."""
    first = sides[0]
    if len(sides) == 1:
        return [Contrast("before", "after", _changes((first, "before"), (first, "after")))]
    return [Contrast(first.letter, other.letter, _changes((first, "after"), (other, "after"))) for other in sides[1:]]


def remarks(sides: Sequence[Side]) -> list[str]:
    """What a reader should know before comparing numbers."""
    names = [row.name for row in differing_params(sides) if row.name.startswith(MEASURING)]
    found = f"{', '.join(names)} differ{'s' if len(names) == 1 else ''}: the runs were not measured in the same way."
    return [found] if names else []


def legend(account: RunRecord) -> str:
    """What the numbers of a contrast are. The resamples are those that the first run's evaluation used."""
    confidence, resamples = float(account.params["evaluation.confidence"]), _resamples(account)
    return (
        f"Problem by problem on the same test problems; in brackets the paired bootstrap interval of "
        f"{100 * confidence:g} % of the change. p: how often a change at least as large comes up if each problem's two "
        f"results change places at random (sign-flip test, {resamples} draws or, where there are fewer, every "
        "pattern); it is not corrected for reading many."
    )


def _changes(first: tuple[Side, When], second: tuple[Side, When]) -> list[Change]:
    """Every measure that both know of some problem. Interval and resamples as the first run's evaluation has them."""
    account = first[0].account
    confidence, resamples = float(account.params["evaluation.confidence"]), _resamples(account)
    ks = [k for k in account.ks if k in second[0].account.ks]
    before, after = (_by_problem(side.account.outcomes[when], ks) for side, when in (first, second))
    changes = []
    for name in before:
        both = [problem for problem in before[name] if problem in after.get(name, {})]
        if both:
            old, new = [before[name][p] for p in both], [after[name][p] for p in both]
            seed = derive_seed(int(account.params["seed"]), "change", name)  # as the report of the run
            difference = difference_interval(new, old, resamples, confidence, seed)
            p = sign_flip_p(new, old, resamples, seed)
            changes.append(Change(name, len(both), sum(old) / len(old), sum(new) / len(new), difference, p))
    return changes


def _by_problem(outcomes: Sequence[ProblemOutcome], ks: Sequence[int]) -> dict[str, dict[str, float]]:
    """Measure → problem → its value, measures in the order of the report."""
    found: dict[str, dict[str, float]] = {name: {} for name in measures(outcomes, ks)}
    for outcome in outcomes:
        for name, values in measures([outcome], ks).items():
            if values:
                found[name][outcome.problem_id] = values[0]
    return found


def sign_flip_p(after: Sequence[float], before: Sequence[float], resamples: int, seed: int) -> float:
    """Two-sided p-value of the paired permutation test of mean(after − before) = 0 over M problems.

    If nothing changed, a problem's two values might as well be swapped, which flips the sign of its difference. p is
    the share of the 2^m sign patterns of the m differences other than 0 whose sum is at least as far from 0; of more
    than `resamples` patterns so many are drawn, and the observed one is counted with them, so p is never 0. Of 0/1
    values it is McNemar's exact test. Raises ValueError where the lengths differ.
    """
    import numpy as np
    from scipy.stats import permutation_test

    differences = [a - b for a, b in zip(after, before, strict=True) if a != b]
    if len(differences) < 2:
        return 1.0  # of one difference both signs are as far from 0; scipy takes no fewer than two
    tested = permutation_test(
        (np.asarray(differences, dtype=np.float64),),
        np.sum,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=RESAMPLE_BATCH,
        rng=np.random.default_rng(seed),
    )
    return float(tested.pvalue)


def title_of(measure: str) -> str:
    """`pass_at_5` → `pass@5 sampled`, `…_operations_2` → `… operations: 2`."""
    title = re.sub(r"_at_(\d+)", r"@\1", re.sub(r"_operations_(\d+)$", r" operations: \1", measure))
    return (f"{title} sampled" if re.fullmatch(r"\w+@\d+", title) else title).replace("_", " ")


def level(value: float) -> str:
    return f"{value:.3f}"


def change(estimate: Estimate) -> str:
    """`+0.100 (+0.06 … +0.14)`."""
    return f"{estimate.mean:+.3f} ({estimate.low:+.2f} … {estimate.high:+.2f})"


def p_value(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def _resamples(account: RunRecord) -> int:
    return int(account.params["evaluation.resamples"])
