"""Tables of test cases that hold every pair of values instead of every combination."""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

Pair = tuple[tuple[str, Any], tuple[str, Any]]


def pairwise_cases(**factors: Sequence[Any]) -> list[dict[str, Any]]:
    """Cases such that any two factors take every pair of their values together; values must be hashable.

    Greedy, as in AETG (Cohen et al. 1997): each next case is the first one with the most pairs that are still missing.
    """
    cases = [dict(zip(factors, values, strict=True)) for values in product(*factors.values())]
    missing = {pair for case in cases for pair in _pairs(case)}
    table = []
    while missing:
        best = max(cases, key=lambda case: len(missing.intersection(_pairs(case))))
        missing.difference_update(_pairs(best))
        table.append(best)
    return table


def case_name(case: dict[str, Any]) -> str:
    """The id of a case in pytest."""
    return " ".join(f"{name}={value}" for name, value in case.items())


def _pairs(case: dict[str, Any]) -> list[Pair]:
    return list(combinations(case.items(), 2))
