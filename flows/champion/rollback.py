"""`graft rollback` and `graft champion`: an earlier champion in its place again, and who was champion after whom."""

import sys
from typing import TYPE_CHECKING

from tasks.artifacts import read_json
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.promotion.champion import current_champion, previous_champions, read_history
from tasks.promotion.history import utc_now
from tasks.promotion.rollback import roll_back
from tasks.records import Promotion
from tasks.redaction import redacted
from tasks.tracking.recorder import tell_champion

if TYPE_CHECKING:
    from rich.console import Console

FOLLOWS = "champion/ is as it should be, and the registry follows at the next run or rollback"


def rollback(layout: Layout, params: Params, version: str | None, reason: str) -> None:
    """Put an earlier champion in its place, then let the registry follow, which may fail without harm."""
    step = roll_back(layout.champion, version, redacted(" ".join(reason.split())), utc_now())
    print(f"champion: {step.version}, {step.how} ({step.reason}); {step.replaced} was taken back and is kept")
    print(f"to undo this: graft rollback {step.replaced}")
    decision = _decision(layout)
    if decision and decision.champion_version == step.replaced and decision.version != step.version:
        print(f"The last run was compared with {step.replaced}; to compare it again: graft stage promote --force")
    problem = tell_champion(layout, params)
    if problem:
        print(redacted(f"warning: MLflow ({params.tracking.uri}): {problem}; {FOLLOWS}"), file=sys.stderr)


def print_champions(layout: Layout, console: "Console") -> None:
    """The champion, and all that history knows, the latest first. Raises GraftError where there is no champion."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    champion, others = current_champion(layout.champion).version, previous_champions(layout.champion)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for title in ("since", "champion", "", "replaced", "why"):
        table.add_column(title, no_wrap=title != "why")
    for step in reversed(read_history(layout.champion)):
        table.add_row(step.time, step.version, step.how, step.replaced or "", escape(step.reason))
    console.print(f"champion: {champion} in {layout.champion.name}/policy", highlight=False)
    console.print(f"kept, for graft rollback VERSION: {', '.join(others) or 'none'}", highlight=False)
    if table.row_count:
        console.print()
        console.print(table)


def _decision(layout: Layout) -> Promotion | None:
    """What the last run decided, if there was one."""
    return read_json(layout.promotion, Promotion) if layout.promotion.exists() else None
