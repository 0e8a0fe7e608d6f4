"""`graft compare`: runs side by side, in the terminal and as a page, read from the files of the runs."""

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.table import Table

from flows.reports import comparison
from flows.reports.comparison import LEGEND, Contrast, Side
from flows.reports.run_lookup import LONGEST_NAME, find_run
from tasks.core.terminal import make_table, shortened
from tasks.errors import GraftError

MAX_RUNS = 8
"""The page has this many distinct colours."""

MAX_PARAMS = 300
"""Rows of the table of params, more than there are of one Graft."""

VALUE_WIDTH = 20
"""Characters of a param's value; the page shows all."""

GAP = 2
"""Blanks between the columns of a table."""


def compare(names: Sequence[str], project: Path, html: Path | None, console: Console) -> None:
    """Print the differences between the runs `names`, and write the page to `html`.

    Raises GraftError, before anything is written, if a run is not found or two cannot be compared.
    """
    if len(names) > MAX_RUNS:
        raise GraftError(f"{len(names)} runs are more than can be told apart; name at most {MAX_RUNS}")
    if len(names) == 1 and html is None:
        name = shortened(names[0], LONGEST_NAME)
        raise GraftError(f"{name}: one run alone; name another to compare it with, or --html FILE for its page")
    sides = comparison.make_sides([find_run(name, project) for name in names])
    if html:
        from flows.reports.html.page import render_page, write_page_file

        write_page_file(html, render_page(sides))
    _print(sides, console)
    if html:
        console.print(f"\nThe page: {html}", highlight=False, soft_wrap=True)


def _print(sides: Sequence[Side], console: Console) -> None:
    if len(sides) > 1:
        for side in sides:
            console.print(f"{side.letter}  {side.name}", highlight=False, soft_wrap=True)
        console.print()
        _print_params(comparison.differing_params(sides), sides, console)
    for contrast in comparison.contrasts(sides):
        console.print()
        console.print(_changes(contrast))
    console.print()
    for note in (*comparison.remarks(sides), LEGEND):
        console.print(note, style="dim", highlight=False)


def _print_params(rows: Mapping[str, Sequence[str]], sides: Sequence[Side], console: Console) -> None:
    """A table with all runs, or several one below the other where the terminal has no room for all."""
    if not rows:
        console.print("All params are the same.")
        return
    title = "params that differ"
    shown = {name: [shortened(value, VALUE_WIDTH) for value in rows[name]] for name in islice(rows, MAX_PARAMS)}
    room = console.width - max(map(len, (title, *shown)))
    widest = max(len(value) for values in shown.values() for value in values)
    together = max(room // (widest + GAP), 1)
    for start in range(0, len(sides), together):
        part = slice(start, start + together)
        table = make_table(title, *(side.letter for side in sides[part]), wrap=title)
        for name, values in shown.items():
            table.add_row(name, *values[part])
        if start:
            console.print()
        console.print(table)
    if len(rows) > MAX_PARAMS:
        console.print(f"… and {len(rows) - MAX_PARAMS} more: --html FILE shows all", style="dim", highlight=False)


def _changes(contrast: Contrast) -> Table:
    counts = {row.problems for row in contrast.changes}
    most = max(counts)
    title = f"{most} test problems"
    table = make_table(title, contrast.first, contrast.second, "change", "p", wrap=title)  # so that no number is cut
    for row in contrast.changes:
        measure = comparison.title_of(row.name) + ("" if row.problems == most else f" ({row.problems})")
        change, p = comparison.change(row.difference), comparison.p_value(row.p)
        table.add_row(measure, comparison.level(row.first), comparison.level(row.second), change, p)
    return table
