"""The real months of one seed that benchmarks.months compares, and the faults that nights are to tell of."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from benchmarks.months.nights import CHAMPION_ALONE, REVISION, SIZES, Month, Night
from benchmarks.support.short_runs import Figures, digest
from tasks.artifacts import write_text

NIGHTS, ALTERNATING = 12, 10
SMALL_GAINS, MANY_LINES = ("update.learning_rate=3.5e-4", "problems.test=200", "problems.confirm=200"), 520
"""Nights whose gain none of them can show alone, by a test set that can show the gain of some; lines of their files."""

RETAINED = ("promotion.keep=1", "problems.replay=0.5")

WRONG = """
def wrong(problem, text, results):
    return float(results[0].status == "ok" and results[0].value != problem.answer)
"""
"""A reward for programs that run and are wrong."""

FAULTS = {
    "rewards.mislead": (
        *("rewards.correctness=0", 'rewards.own=[{name: wrong, term: "wrong:wrong", weight: 1}]'),
        *("rounds=3", "update.learning_rate=2e-3", "update.epochs=6"),
    ),
    "policy.collapses": ("rounds=2", "update.learning_rate=0.02", "update.beta=0", "update.max_grad_norm=100"),
    "test.small": ("problems.test=8",),
}
"""Kind of the alert → what a night sets that it is to tell."""


class Job(NamedTuple):
    """The months of one seed."""

    what: str
    seed: int

    @property
    def digest(self) -> str:
        """Its name in a results file."""
        served = (*SMALL_GAINS, *CHAMPION_ALONE)
        sets = {"served": served, "forgotten": RETAINED}.get(self.what, FAULTS.get(self.what, ()))
        return digest([*SIZES, f"seed={self.seed}"], self.what, sets, NIGHTS, ALTERNATING, REVISION)

    def compute(self) -> Figures:
        """Its figures, by real nights in a folder that is removed."""
        kinds: dict[str, Callable[[Path, int], Figures]] = {"served": served, "forgotten": forgotten}
        with tempfile.TemporaryDirectory(prefix="graft-months-") as folder:
            return kinds.get(self.what, partial(alarmed, self.what))(Path(folder), self.seed)


def served(folder: Path, seed: int) -> Figures:
    """Accuracy of what is served after a month by today's rules and by those before, in no fewer nights and seconds."""
    now = Month(folder / "now", seed, SMALL_GAINS, MANY_LINES)
    nights = [now.add(Night()) for _ in range(NIGHTS)]
    budget = sum(night.seconds for night in nights)
    before = Month(folder / "before", seed, (*SMALL_GAINS, *CHAMPION_ALONE), MANY_LINES)
    spent = count = 0.0
    while count < NIGHTS or spent < budget:
        spent, count = spent + before.add(Night()).seconds, count + 1
    figures = {"served": now.accuracy("all"), "before": before.accuracy("all"), "nights_before": count}
    figures |= {"first": now.accuracy("all", now.first), "latest": now.accuracy("all", now.latest)}
    figures |= {"seconds": budget, "promotions": sum(night.promoted for night in nights)}
    return figures | {"alarms": sum(len(night.alarms) for night in nights), "nights": len(nights)}


def forgotten(folder: Path, seed: int) -> Figures:
    """The most that the served policy lost of its best accuracy on a source, with and without retention."""
    figures: Figures = {}
    for name, assignments in (("without", ()), ("with", RETAINED)):
        month, levels = Month(folder / name, seed, assignments), list[dict[str, float]]()
        alarms = promotions = 0
        for number in range(ALTERNATING):
            night = month.add(Night(("even", "odd")[number % 2]))
            alarms, promotions = alarms + len(night.alarms), promotions + night.promoted
            if night.promoted or not levels:
                levels.append({source: month.accuracy(source) for source in ("even", "odd")})
        lost = (max(before[s] for before in levels[: n + 1]) - now[s] for n, now in enumerate(levels) for s in now)
        figures |= {name: max(lost), f"{name}_served": fmean(levels[-1].values())}
        figures |= {f"{name}_promotions": promotions, f"{name}_alarms": alarms}
    return figures


def alarmed(kind: str, folder: Path, seed: int) -> Figures:
    """Whether a planted fault raised its alert, and how far it lowered accuracy."""
    month = Month(folder / "month", seed, [])
    write_text(month.root / "wrong.py", WRONG)
    night = month.add(Night(assignments=FAULTS[kind]))
    return {
        "told": kind in night.alarms,
        "lost": month.accuracy("all", month.first) - month.accuracy("all", month.latest),
    }
