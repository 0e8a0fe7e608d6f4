"""Retention: a policy that is better tonight must not have lost what the champion can do on earlier test sets.

A policy is held back unless it is shown to be not worse than the champion by a margin: on each kept set the lower end
of the 95 % interval of the paired difference must lie above -margin. That no loss was seen is not enough, as a small
set sees none. (Non-inferiority: Piaggio et al., JAMA 2006, 295, 1152-1160, and 2012, 308, 2594-2604.)
"""

from collections.abc import Sequence

from tasks.environments.protocol import Gate
from tasks.known_problems import KnownProblems, comparable, question_key
from tasks.promotion_records import KeptResult, KeptSet, Promotion
from tasks.records import Problem
from tasks.statistics.intervals import CONFIDENCE, difference_interval

SAME = 0.5
"""Share of the smaller one's problems by which two test sets are the same, of which one was renewed."""


def are_same(one: Sequence[Problem], other: Sequence[Problem]) -> bool:
    """Whether two sets have half of their problems, or more, in common."""
    ours, theirs = ({question_key(problem.question) for problem in problems} for problems in (one, other))
    return len(ours & theirs) >= SAME * min(len(ours), len(theirs))


def sets_after(kept: Sequence[KeptSet], tonight: KeptSet, most: int) -> list[KeptSet]:
    """The kept sets once a policy became champion on tonight's test problems, the latest first, up to `most` and one.

    The older of two that are the same stays: of a window that slides, the problems of some weeks ago.
    """
    if any(are_same(each.problems, tonight.problems) for each in kept):
        return list(kept[: most + 1])
    return [tonight, *kept][: most + 1]


def sets_to_compare(
    kept: Sequence[KeptSet], test: Sequence[Problem], most: int, *known: KnownProblems | None
) -> list[KeptSet]:
    """Up to `most` kept sets that tonight's test problems do not cover.

    Without the problems that a policy with a record in `known` learnt from, and the sets of which these are the most.
    """
    earlier = [each for each in kept if not are_same(each.problems, test)][:most]
    left = [[each.problems[place] for place in comparable(each.problems, *known)] for each in earlier]
    return [
        each.model_copy(update={"problems": problems})
        for each, problems in zip(earlier, left, strict=True)
        if 2 * len(problems) >= len(each.problems)
    ]


def compare_kept(
    kept: KeptSet,
    values: Sequence[float],
    champion_values: Sequence[float],
    margin: float,
    seed: int,
    gate: Gate | None = None,
) -> KeptResult:
    """The comparison on a kept set. `values`, `champion_values` [M]: what the gate compares, pass@1 without one."""
    difference = difference_interval(values, champion_values, seed)
    least = -difference.high if gate and gate.lower else difference.low
    return KeptResult(
        name=kept.name,
        problems=len(values),
        value=sum(values) / len(values),
        champion_value=sum(champion_values) / len(champion_values),
        difference=difference.mean,
        low=difference.low,
        high=difference.high,
        lost=least <= -margin,
    )


def hold_back(decision: Promotion, results: Sequence[KeptResult], margin: float) -> Promotion:
    """The decision with these results, against a policy that may have lost more than the margin on one of the sets."""
    decision = decision.model_copy(update={"kept": list(results)})
    lost = [each.name for each in results if each.lost]
    if not (lost and decision.promoted):
        return decision
    earlier = f"the earlier test problems of {', '.join(lost)}"
    reason = f"not {decision.reason}; but it may have lost more than promotion.margin {margin:g} on {earlier}"
    return decision.model_copy(update={"promoted": False, "reason": reason})


def describe_kept(result: KeptResult) -> str:
    """A comparison in words, as a part of a sentence that begins with On."""
    levels = f"{result.value:.3f} against the champion's {result.champion_value:.3f}"
    interval = f"{100 * CONFIDENCE:g} % interval {result.low:.3f} … {result.high:.3f} of the difference"
    verdict = "more than promotion.margin may be lost" if result.lost else "kept"
    return f"{result.problems} earlier test problems of {result.name}: {levels} ({interval}): {verdict}"
