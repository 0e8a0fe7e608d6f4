"""Retention: a policy that is better tonight must not have lost what the champion can do on earlier test sets.

A policy is held back unless it is shown to be not worse than the champion by a margin: on each kept set the lower end
of the 95 % interval of the paired difference must lie above -margin. That no loss was seen is not enough, as a small
set sees none. (Non-inferiority: Piaggio et al., JAMA 2006, 295, 1152-1160, and 2012, 308, 2594-2604.)
"""

from collections.abc import Collection, Sequence

from tasks.known_problems import question_key, unknown
from tasks.records.problems import Problem
from tasks.records.promotion import KeptResult, KeptSet, Promotion
from tasks.statistics.intervals import CONFIDENCE, difference_interval

HALF = 0.5
"""Share of the smaller one's problems by which two test sets are the same, and of a set's that must be left of it."""


def are_same(one: Sequence[Problem], other: Sequence[Problem]) -> bool:
    """Whether two sets have half of their problems, or more, in common."""
    ours, theirs = ({question_key(problem.question) for problem in problems} for problems in (one, other))
    return len(ours & theirs) >= HALF * min(len(ours), len(theirs))


def sets_after(kept: Sequence[KeptSet], tonight: KeptSet, most: int) -> list[KeptSet]:
    """The kept sets once a policy became champion on tonight's test problems, the latest first, up to `most` and one.

    The older of two that are the same stays: of a window that slides, the problems of some weeks ago.
    """
    known = any(are_same(each.problems, tonight.problems) for each in kept)
    return [*kept][: most + 1] if known else [tonight, *kept][: most + 1]


def sets_to_compare(
    kept: Sequence[KeptSet], test: Sequence[Problem], most: int, learnt: Collection[str]
) -> list[KeptSet]:
    """Up to `most` kept sets that tonight's test problems do not cover, without problems with a key in `learnt`."""
    earlier = [each for each in kept if not are_same(each.problems, test)][:most]
    left = (each.model_copy(update={"problems": unknown(each.problems, learnt)}) for each in earlier)
    return [now for each, now in zip(earlier, left, strict=True) if len(now.problems) >= HALF * len(each.problems)]


def compare_kept(
    kept: KeptSet,
    values: Sequence[float],
    champion_values: Sequence[float],
    margin: float,
    seed: int,
    lower: bool = False,
) -> KeptResult:
    """The comparison on a kept set. `values`, `champion_values` [M]: what is compared; `lower`: less is better."""
    difference = difference_interval(values, champion_values, seed)
    low, high = (-difference.high, -difference.low) if lower else (difference.low, difference.high)
    return KeptResult(
        name=kept.name,
        problems=len(values),
        value=sum(values) / len(values),
        champion_value=sum(champion_values) / len(champion_values),
        difference=difference.mean,
        low=difference.low,
        high=difference.high,
        lost=low <= -margin,
        worse=high < 0,
    )


def hold_back(decision: Promotion, results: Sequence[KeptResult], margin: float) -> Promotion:
    """The decision with these results, against a policy that may have lost more than the margin on one of the sets.

    One that is worse there by more than chance is `worse`, so that later runs are not built on it.
    """
    worse = decision.worse or any(each.lost and each.worse for each in results)
    decision = decision.model_copy(update={"kept": list(results), "worse": worse})
    lost = ", ".join(each.name for each in results if each.lost)
    if not (lost and decision.promoted):
        return decision
    why = f"it may have lost more than promotion.margin {margin:g} on the earlier test problems of {lost}"
    return decision.model_copy(update={"promoted": False, "reason": f"not {decision.reason}; but {why}"})


def describe_kept(result: KeptResult) -> str:
    """A comparison in words, as a part of a sentence that begins with On."""
    levels = f"{result.value:.3f} against the champion's {result.champion_value:.3f}"
    interval = f"{100 * CONFIDENCE:g} % interval {result.low:.3f} … {result.high:.3f} of the difference"
    verdict = "more than promotion.margin may be lost" if result.lost else "kept"
    return f"{result.problems} earlier test problems of {result.name}: {levels} ({interval}): {verdict}"
