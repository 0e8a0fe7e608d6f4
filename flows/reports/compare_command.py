"""`graft compare`: runs side by side, in the terminal and as a page, read from the files of the runs."""

from collections.abc import Mapping, Sequence
from itertools import islice
from os.path import exists, isdir, isfile  # False for a name that is too long, for which pathlib raises
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


def compare(names: Sequence[str], project: Path, html: Path | None, console: Console) -> None:
    """Print the differences between the runs `names`, and write the page to `html`.

    Raises GraftError, before anything is written, if a run is not found or two cannot be compared.
    """
    if len(names) > MAX_RUNS:
        raise GraftError(f"{len(names)} runs are more than can be told apart; name at most {MAX_RUNS}")
    if len(names) == 1 and html is None:
        name = shortened(names[0], LONGEST_NAME)
        raise GraftError(f"{name}: one run alone; name another to compare it with, or --html FILE for its page")
    if html and isdir(html):
        raise GraftError(f"--html {html}: is a folder; name a file, for instance {html / 'page.html'}")
    if html and exists(html) and not isfile(html):
        raise GraftError(f"--html {html}: is a device or a pipe; name a file, which is replaced")
    sides = comparison.make_sides([find_run(name, project) for name in names])
    if html:
        from flows.reports.html.page import render_page
        from tasks.artifacts import write_text

        try:
            write_text(html, render_page(sides))
        except (FileExistsError, NotADirectoryError):
            raise GraftError(f"--html {html}: a file is in the way of its folder; name another place") from None
        except OSError as error:  # /proc, a name that is too long
            shown = shortened(str(html), LONGEST_NAME)
            raise GraftError(f"--html {shown}: cannot be written ({error.strerror}); name another place") from None
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
    if not rows:
        console.print("All params are the same.")
        return
    table = make_table("params that differ", *(side.letter for side in sides))
    for name, values in islice(rows.items(), MAX_PARAMS):
        table.add_row(name, *(shortened(value, VALUE_WIDTH) for value in values))
    console.print(table)
    if len(rows) > MAX_PARAMS:
        console.print(f"… and {len(rows) - MAX_PARAMS} more: --html FILE shows all", style="dim", highlight=False)


def _changes(contrast: Contrast) -> Table:
    counts = {row.problems for row in contrast.changes}
    most = max(counts)
    table = make_table(f"{most} test problems", contrast.first, contrast.second, "change", "p")
    for row in contrast.changes:
        title = comparison.title_of(row.name) + ("" if row.problems == most else f" ({row.problems})")
        change, p = comparison.change(row.difference), comparison.p_value(row.p)
        table.add_row(title, comparison.level(row.first), comparison.level(row.second), change, p)
    return table
