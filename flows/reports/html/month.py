"""The page of a month: what was served and the latest night by night, with what was new and what became of each."""

from collections.abc import Sequence
from typing import TypeGuard

from flows.reports.comparison import change
from flows.reports.history import Night
from flows.reports.html.chart import Curve, Point, curves
from flows.reports.html.page import page_template
from tasks.promote.retention import describe_kept
from tasks.records.promotion import Confirmation, Promotion
from tasks.statistics.intervals import Estimate, wilson_interval

MOST = 1_000_000
"""Runs and test problems that are drawn: the numbers of a file may be of any size."""


def render_month(nights: Sequence[Night]) -> str:
    """The page. All text of the history is escaped."""
    drawn = [
        Curve("served", 0, [_point(night, night.served) for night in nights if _is_share(night.served)]),
        Curve("latest", 1, [_point(night, night.latest) for night in nights if _is_share(night.latest)]),
    ]
    lines = [curve for curve in drawn if curve.points]
    return page_template("month.html.jinja").render(
        title=f"{len(nights)} runs, {sum(night.outcome.startswith('promoted') for night in nights)} promoted",
        nights=nights,
        chart=curves("pass@1 greedy of what is served and of the latest", lines, (0.0, 1.0), "run") if lines else None,
        lead_of=lead_of,
        describe_kept=describe_kept,
    )


def lead_of(compared: Promotion | Confirmation) -> str:
    """The difference, of the gate or on problems that no gate has seen, with its interval."""
    return change(Estimate(compared.difference, compared.low, compared.high))


def _is_share(level: float | None) -> TypeGuard[float]:
    return level is not None and 0 <= level <= 1


def _point(night: Night, share: float) -> Point:
    """With the interval of a share of the night's test problems, if their number is known."""
    decision, level = night.entry.decision, Estimate(share, share, share)
    if decision and decision.problems and 0 < decision.problems <= MOST:
        right = round(share * decision.problems)
        level = wilson_interval([1.0] * right + [0.0] * (decision.problems - right))
    return Point(float(max(-MOST, min(night.entry.number, MOST))), *level)
