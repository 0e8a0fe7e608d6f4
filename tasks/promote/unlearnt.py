"""The test problems on which two policies are compared: those that neither learnt from.

Where a run continues the champion's lineage these are all. A run that began elsewhere, from scratch with another seed
for instance, may be tested on what the champion learnt by heart.
"""

from collections.abc import Sequence

from tasks.artifacts import read_jsonl
from tasks.known_problems import comparable, read_known
from tasks.layout import Layout
from tasks.promotion_records import Promotion
from tasks.records import Problem

LEAST = 0.5
"""Share of the test problems that must be left for a comparison."""


def unlearnt_places(layout: Layout) -> list[int]:
    """The places of the test problems that neither the run's policy nor the champion learnt from."""
    problems = read_jsonl(layout.problems("test"), Problem)
    return comparable(problems, read_known(layout.run_policy), read_known(layout.champion / "policy"))


def are_enough(places: Sequence[int], count: int) -> bool:
    """Whether these of `count` test problems decide on a promotion."""
    return len(places) >= LEAST * count


def with_share(decision: Promotion, places: Sequence[int], count: int) -> Promotion:
    """The decision, which says of how many of `count` test problems it is; with too few of them it is against."""
    if len(places) == count:
        return decision
    learnt = f"the champion learnt from {count - len(places)} of the {count} test problems"
    if are_enough(places, count):
        return decision.model_copy(update={"reason": f"{decision.reason}; compared on {len(places)}: {learnt}"})
    reason = f"not promoted: {learnt}; set policy.base to champion/policy, or move champion/ away"
    return decision.model_copy(update={"promoted": False, "reason": reason})
