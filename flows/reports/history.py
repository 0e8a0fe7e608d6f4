"""The runs of a project, by `graft history`: the nights of a month with what was new and what became of each.

In the terminal a line for each run, and one for the scheduled runs after it that found nothing new.
"""

from typing import Any, NamedTuple

from rich.console import Console

from flows.history.run_history import Entry, entries
from flows.process.workspace_lock import is_run_at_work
from flows.reports.comparison import change
from tasks.core.terminal import make_table, print_text, shortened
from tasks.layout import Layout
from tasks.promote.challenger import read_challenger
from tasks.promote.champion import champion_version, read_history
from tasks.promote.latest import read_latest
from tasks.records.promotion import Promotion
from tasks.statistics.intervals import Estimate

WIDTH = 120
"""Characters of a line where the output is no terminal."""

OTHERS = 78
"""Characters of a line that are not of the name."""


class Night(NamedTuple):
    """A run, and what became of it."""

    entry: Entry
    outcome: str  # promoted, not promoted, left behind, failed …, and whether its policy is served or the latest now
    served: float | None  # pass@1 greedy, on the run's test problems, of the champion after it; None: there was none
    latest: float | None  # and of the latest policy; None: the run did not change it

    @property
    def changed(self) -> str:
        """What differed from the last run that succeeded: problems, params, source."""
        return self.entry.name.partition(" · ")[2].partition(" · ")[0]

    @property
    def json(self) -> dict[str, Any]:
        """As `graft history --json` prints it."""
        names = ("changed", "outcome", "served", "latest")
        return self.entry.model_dump(mode="json") | {name: getattr(self, name) for name in names}


def list_nights(layout: Layout, last: int) -> list[Night]:
    """The last runs, the latest last."""
    shown = entries(layout.root)[-last:]
    approved = {step.version for step in read_history(layout.champion) if step.how == "approved"}
    challenger, latest = read_challenger(layout), read_latest(layout)
    marks = {latest.version: ", latest"} if latest else {}
    marks |= {version: ", served"} if (version := champion_version(layout.champion)) else {}
    is_at_work, nights = is_run_at_work(layout.root), list[Night]()
    for entry in shown:
        if entry.done is None:
            outcome = "running" if entry is shown[-1] and is_at_work else "killed"
        else:
            outcome = _decision(entry, approved, challenger)
            outcome += marks.get(entry.decision.version, "") if entry.decision else ""
        served = _served(entry.decision) if entry.decision else None
        nights.append(Night(entry, outcome, served, _latest(entry, served)))
    return nights


def print_history(layout: Layout, last: int, console: Console) -> None:
    """Print the last runs, the latest last; below them why runs failed, and what earlier test sets lost."""
    nights = list_nights(layout, last)
    if not console.is_terminal:
        console.width = WIDTH
    table = make_table("time", "run", "minutes", "lead", "decision")
    table.columns[2].justify = "right"
    for entry, outcome, *_ in nights:
        minutes = "" if entry.minutes is None else f"{entry.minutes:.1f}"
        table.add_row(entry.when[:16], _fitting(entry.name, console.width - OTHERS), minutes, _lead(entry), outcome)
        if entry.nothing_new:
            table.add_row(entry.nothing_new_until[:16], f"nothing new, {entry.nothing_new} ×")
    if nights:
        console.print(table)
    for entry in (night.entry for night in nights):
        if entry.done is False:
            print_text(f"{entry.number}: {entry.line}")
        for kept in entry.decision.kept if entry.decision else ():
            if kept.lost:
                difference = change(Estimate(kept.difference, kept.low, kept.high))
                print_text(f"{entry.number}: on {kept.name}, {kept.problems} earlier test problems: {difference}")


def _lead(entry: Entry) -> str:
    """Over the champion of then, with its interval; confirmed, if it was."""
    return change(Estimate(*entry.decision.lead)) if entry.decision else ""


def _served(decision: Promotion) -> float | None:
    """Of the champion after a night: of its policy, or of the champion before it."""
    if decision.promoted:
        return decision.pass_at_1
    return decision.champion_pass_at_1 if decision.champion_version else None


def _latest(entry: Entry, served: float | None) -> float | None:
    """Of the policy that the next night starts from: where this one's was left behind, that which is served."""
    if not entry.scheduled or entry.decision is None:
        return None
    return served if entry.decision.worse else entry.decision.pass_at_1


def _decision(entry: Entry, approved: set[str], challenger: Promotion | None) -> str:
    """The decision of a run that has ended, with the one who approved."""
    decision = entry.decision
    if not entry.done:
        return "interrupted" if entry.line.startswith("interrupted") else "failed"
    if decision is None:  # of an older version
        return next((word for word in ("not promoted", "promoted") if word in entry.line.lower()), "")
    if decision.approval == "waits" and decision.version not in approved:
        return "waits" if challenger and challenger.version == decision.version else "not approved"
    if decision.promoted or decision.approval:
        return f"promoted ({'person' if decision.approval else 'auto'})"
    return "left behind" if decision.worse and entry.scheduled else "not promoted"


def _fitting(name: str, width: int) -> str:
    """The name with what changed cut, but neither the number nor the result."""
    number, _, rest = name.partition(" · ")
    changed, point, result = rest.partition(" · ")
    others = len(name) - len(changed)
    return f"{number} · {shortened(changed, max(width - others, 1))}{point}{result}"
