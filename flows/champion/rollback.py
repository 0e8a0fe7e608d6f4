"""`graft rollback` restores an earlier champion; `graft champion` prints the history of champions."""

import sys
from typing import TYPE_CHECKING

from tasks.artifacts import read_json
from tasks.core.terminal import make_table, print_text
from tasks.errors import one_line
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.promote.champion import current_champion, previous_champions, read_history
from tasks.promote.history import utc_now
from tasks.promote.rollback import roll_back
from tasks.promotion_records import Promotion
from tasks.redaction import redacted
from tasks.tracking.recorder import update_registry

if TYPE_CHECKING:
    from rich.console import Console

FOLLOWS = "champion/ is as it should be, and the registry follows at the next run or rollback"


def rollback(layout: Layout, params: Params, version: str | None, reason: str) -> None:
    """Restore an earlier champion, then update the MLflow registry; a failure there is a warning."""
    step = roll_back(layout.champion, version, redacted(" ".join(reason.split())), utc_now())
    print_text(f"champion: {step.version}, {step.how} ({step.reason}); {step.replaced} was taken back and is kept")
    print_text(f"to undo this: graft rollback {step.replaced}")
    decision = read_json(layout.promotion, Promotion) if layout.promotion.exists() else None
    if decision and decision.champion_version == step.replaced and decision.version != step.version:
        print_text(f"The last run was compared with {step.replaced}; to compare it again: graft stage promote --force")
    problem = update_registry(layout, params)
    if problem:
        print(
            one_line(redacted(f"warning: MLflow ({params.machine.tracking.uri}): {problem}; {FOLLOWS}")),
            file=sys.stderr,
        )


def print_champions(layout: Layout, console: "Console") -> None:
    """Print the champion and its history, the latest first. Raises GraftError if there is no champion."""
    champion, others = current_champion(layout.champion).version, previous_champions(layout.champion)
    table = make_table("since", "champion", "", "replaced", "why", wrap="why")
    for step in reversed(read_history(layout.champion)):
        table.add_row(step.time, step.version, step.how, step.replaced or "", step.reason)
    console.print(f"champion: {champion} in {layout.champion.name}/policy", highlight=False)
    console.print(f"kept, for graft rollback VERSION: {', '.join(others) or 'none'}", highlight=False)
    if table.row_count:
        console.print()
        console.print(table)
