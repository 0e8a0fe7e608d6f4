"""The front of accuracy and efficiency: the policies that no other one beats in both."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flows.reports.comparison import Side

ACCURACY = "pass_at_1"
"""Of the samples, which the costs are of, too."""

COSTS = {
    "operations_per_sample": "operations",
    "model_calls_per_sample": "model calls",
    "cost_per_1000_samples": "dollars per 1,000",
}
"""Metric → title, of a sample: the less, the better."""


class FrontPoint(NamedTuple):
    """A policy."""

    name: str
    colour: int  # of its run, from 0
    accuracy: float
    cost: float


class Front(NamedTuple):
    """The policies by their cost, cheapest first, and the names of those that none beats."""

    title: str
    points: list[FrontPoint]
    best: set[str]


def efficiency_front(sides: Sequence[Side]) -> Front | None:
    """The front by dollars where every policy has them, before and after each run, else by operations."""
    for name in ("cost_per_1000_samples", "operations_per_sample"):
        points = [point for colour, side in enumerate(sides) for point in _points(side, colour, name, len(sides) > 1)]
        if len(points) == 2 * len(sides):
            points.sort(key=lambda point: (point.cost, -point.accuracy, point.name))
            return Front(COSTS[name], points, {points[i].name for i in pareto_front([p[2:] for p in points])})
    return None


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """The places of the pairs (accuracy, cost) that no other one dominates.

    One dominates another if it is at least as accurate and costs at most as much, and is better in one of the two.
    """
    return [
        i
        for i, (accuracy, cost) in enumerate(points)
        if not any(a >= accuracy and c <= cost and (a, c) != (accuracy, cost) for a, c in points)
    ]


def _points(side: Side, colour: int, name: str, several: bool) -> list[FrontPoint]:
    found = []
    for when in ("before", "after"):
        numbers: Mapping[str, float] = side.record.metrics.get(f"evaluate@{when}", {})
        if name in numbers and ACCURACY in numbers:
            title = f"{side.letter}, {when}" if several else when
            found.append(FrontPoint(title, colour, numbers[ACCURACY], numbers[name]))
    return found
