"""The page of a run, or of several: one HTML file without scripts or external resources."""

import base64
from collections.abc import Sequence
from os.path import exists, isdir, isfile  # False for a name that is too long, for which pathlib raises
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from flows.history.run_history import format_result
from flows.reports import comparison
from flows.reports.comparison import Side
from flows.reports.html import content
from flows.reports.run_lookup import LONGEST_NAME
from flows.reports.run_record import RunRecord, read_run_record
from tasks.artifacts import remove_leftovers, write_json, write_text
from tasks.core.terminal import shortened
from tasks.errors import GraftError
from tasks.layout import Layout


def write_page(layout: Layout) -> RunRecord:
    """Write `run/page.html` and `run/account.json`, and return the record of the run.

    The same run gives the same bytes. There must be no concurrent writer. Raises GraftError if a result is missing or
    damaged.
    """
    record = read_run_record(layout)
    page = render_page(comparison.make_sides([("this run", record)]))
    for path in (layout.account, layout.page):
        remove_leftovers(path)
    write_json(layout.account, record)
    write_text(layout.page, page)
    return record


def write_page_file(html: Path, page: str) -> None:
    """Write a page to the file that `--html` names. Raises GraftError if it is none, or cannot be written."""
    if isdir(html):
        raise GraftError(f"--html {html}: is a folder; name a file, for instance {html / 'page.html'}")
    if exists(html) and not isfile(html):
        raise GraftError(f"--html {html}: is a device or a pipe; name a file, which is replaced")
    try:
        write_text(html, page)
    except (FileExistsError, NotADirectoryError):
        raise GraftError(f"--html {html}: a file is in the way of its folder; name another place") from None
    except OSError as error:  # /proc, a name that is too long
        shown = shortened(str(html), LONGEST_NAME)
        raise GraftError(f"--html {shown}: cannot be written ({error.strerror}); name another place") from None


def render_page(sides: Sequence[Side]) -> str:
    """The page of one run, or of several side by side. All text of a run is escaped."""
    record = sides[0].record
    tested = f"{len(record.outcomes['after'])} test problems"
    contrasts = comparison.contrasts(sides)
    title = f"{len(sides)} runs on {tested}" if len(sides) > 1 else f"A run of {record.rounds} rounds on {tested}"
    if len(sides) == 1:  # of its name, the part that is the same wherever it is computed
        changes = [change for change in contrasts[0].changes if change.name == "pass_at_1_greedy"]
        title += "".join(f": {format_result(change.first, change.second)}" for change in changes)
    return page_template("page.html.jinja").render(
        title=title,
        sides=sides,
        remarks=comparison.remarks(sides),
        legend=comparison.LEGEND,
        contrasts=contrasts,
        policies=comparison.policy_levels(record) if len(sides) == 1 else [],
        params=comparison.differing_params(sides),
        pass_at_k=content.pass_at_k(sides),
        rewards=content.rewards(sides),
        influence=content.influence(sides),
        selections=content.selections(sides),
        extremes=content.extremes(sides),
        updates=content.updates(sides),
        trees=[(side, _image(side.record.tree)) for side in sides if side.record.tree],
        measures=content.measure_rows(sides),
        cards=content.cards(sides),
    )


def _image(svg: str) -> str:
    """A data URL for an image: it keeps its own styles and runs no script."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def page_template(name: str) -> Template:
    """A template of this folder. What it shows is escaped, and a name that it lacks is an error."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
    )
    environment.filters |= {
        "image": _image,
        "title_of": comparison.title_of,
        "level": comparison.level,
        "change": comparison.change,
        "p_value": comparison.p_value,
    }
    return environment.get_template(name)
