"""The table of `graft history`: a line for each run, and one for the scheduled runs after it that found nothing new."""

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


def print_history(layout: Layout, last: int, console: Console) -> None:
    """Print the last runs, the latest last, and below them why runs failed."""
    shown = entries(layout.root)[-last:]
    approved = {step.version for step in read_history(layout.champion) if step.how == "approved"}
    challenger, latest = read_challenger(layout), read_latest(layout)
    marks = {latest.version: ", latest"} if latest else {}
    marks |= {version: ", served"} if (version := champion_version(layout.champion)) else {}
    if not console.is_terminal:
        console.width = WIDTH
    table = make_table("time", "run", "minutes", "lead", "decision")
    table.columns[2].justify = "right"
    is_at_work = is_run_at_work(layout.root)
    for entry in shown:
        if entry.done is None:
            decision = "running" if entry is shown[-1] and is_at_work else "killed"
        else:
            decision = _decision(entry, approved, challenger)
            decision += marks.get(entry.decision.version, "") if entry.decision else ""
        minutes = "" if entry.minutes is None else f"{entry.minutes:.1f}"
        table.add_row(entry.when[:16], _fitting(entry.name, console.width - OTHERS), minutes, _lead(entry), decision)
        if entry.nothing_new:
            table.add_row(entry.nothing_new_until[:16], f"nothing new, {entry.nothing_new} ×")
    if shown:
        console.print(table)
    for entry in shown:
        if entry.done is False:
            print_text(f"{entry.number}: {entry.line}")


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


def _lead(entry: Entry) -> str:
    """Over the champion of then, with its interval; confirmed, if it was."""
    return change(Estimate(*entry.decision.lead)) if entry.decision else ""


def _fitting(name: str, width: int) -> str:
    """The name with what changed cut, but neither the number nor the result."""
    number, _, rest = name.partition(" · ")
    changed, point, result = rest.partition(" · ")
    others = len(name) - len(changed)
    return f"{number} · {shortened(changed, max(width - others, 1))}{point}{result}"
