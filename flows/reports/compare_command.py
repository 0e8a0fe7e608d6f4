"""What `graft compare` prints and writes: runs side by side. Reads only what the runs left."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flows.reports import comparison
from flows.reports.comparison import Contrast, ParamRow, Side
from flows.reports.run_lookup import find_run
from tasks.errors import GraftError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MOST = 8  # runs: as many as the page has colours that can be told apart
VALUE_WIDTH = 20  # signs of a param; the page has it whole


def compare(names: Sequence[str], project: Path, html: Path | None, console: "Console") -> None:
    """Print what differs between the runs that `names` mean, and write the page to `html`.

    Raises GraftError where a run is not to be had or two cannot be compared; then nothing is written.
    """
    if len(names) > MOST:
        raise GraftError(f"{len(names)} runs are more than can be told apart; name at most {MOST}")
    if len(names) == 1 and html is None:
        raise GraftError(f"{names[0]}: one run alone; name another to compare it with, or --html FILE for its page")
    if html and html.is_dir():
        raise GraftError(f"--html {html}: is a folder; name a file, for instance {html / 'page.html'}")
    sides = comparison.make_sides([(name, find_run(name, project)) for name in names])
    if html:
        from flows.reports.html.page import render_page
        from tasks.artifacts import write_text

        try:
            write_text(html, render_page(sides))
        except (FileExistsError, NotADirectoryError):
            raise GraftError(f"--html {html}: a file is in the way of its folder; name another place") from None
    _print(sides, console)
    if html:
        console.print(f"\nThe page: {html}", highlight=False, soft_wrap=True)


def _print(sides: Sequence[Side], console: "Console") -> None:
    if len(sides) > 1:
        for side in sides:
            console.print(f"{side.letter}  {side.name}", markup=False, highlight=False, soft_wrap=True)
        console.print()
        _print_params(comparison.differing_params(sides), sides, console)
    for contrast in comparison.contrasts(sides):
        console.print()
        console.print(_changes(contrast))
    console.print()
    for note in (*comparison.remarks(sides), comparison.legend(sides[0].account)):
        console.print(note, style="dim", highlight=False)


def _print_params(rows: Sequence[ParamRow], sides: Sequence[Side], console: "Console") -> None:
    if not rows:
        console.print("All params are the same.")
        return
    table = _table("params that differ", *(side.letter for side in sides))
    for row in rows:
        table.add_row(row.name, *map(_in_short, row.values))
    console.print(table)


def _changes(contrast: Contrast) -> "Table":
    counts = {row.problems for row in contrast.changes}
    most = max(counts)
    table = _table(f"{most} test problems", contrast.first, contrast.second, "change", "p")
    for row in contrast.changes:
        title = comparison.title_of(row.name) + ("" if row.problems == most else f" ({row.problems})")
        change, p = comparison.change(row.difference), comparison.p_value(row.p)
        table.add_row(title, comparison.level(row.first), comparison.level(row.second), change, p)
    return table


def _in_short(value: str) -> "str":
    return value if len(value) <= VALUE_WIDTH else f"{value[: VALUE_WIDTH - 1]}…"


def _table(first: str, *others: str) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, no_wrap=True)
    for title in others:
        table.add_column(title, no_wrap=True)
    return table
