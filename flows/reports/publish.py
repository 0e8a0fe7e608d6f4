"""Publish a run: its name and a summary in Prefect, its page in the folder and in the tracker."""

import logging
from socket import gethostname
from uuid import UUID

from httpx import HTTPError, HTTPStatusError
from prefect.artifacts import create_markdown_artifact
from prefect.client.orchestration import get_client
from prefect.runtime import flow_run

from flows.reports.comparison import change, changes, level, policy_levels, title_of
from flows.reports.html.page import write_page
from flows.reports.run_record import RunRecord
from tasks.artifacts import read_json, read_text, write_text
from tasks.core.terminal import print_warning
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.promote.challenger import read_challenger
from tasks.records.promotion import Promotion
from tasks.tracking.recorder import Recorder

logger = logging.getLogger(__name__)


def publish_name(name: str) -> None:
    """Give the Prefect flow run the name of the run."""
    try:
        _update(name)
    except HTTPError as error:
        print_warning(f"prefect: no name of this run there ({failure(error)})")


def publish_page(layout: Layout, recorder: Recorder, number: int) -> RunRecord | None:
    """Write the page of a finished run, hand it to the tracker, keep its record by its number, and return that.

    The page of a policy that waits for approval is kept with it.

    Its stages are done, so an error is a warning, and an older page is removed.
    """
    try:
        record = write_page(layout)
        write_text(layout.past_account(number), read_text(layout.account))
        challenger = read_challenger(layout)
        if challenger and challenger == read_json(layout.promotion, Promotion):
            write_text(layout.challenger / layout.page.name, read_text(layout.page))
    except GraftError as error:
        for old in (layout.account, layout.page):
            old.unlink(missing_ok=True)
        print_warning(f"no page and no report of this run: {error}")
        return None
    recorder.files(layout.account, layout.page)
    return record


def publish_summary(layout: Layout, recorder: Recorder, name: str, summary: str | None) -> None:
    """The final name of the Prefect flow run, and its summary as an artifact with links to the tracker.

    The decision is in the log of the flow run, too. The HTML page is named by its path without a link: browsers refuse
    links from a server's page to a local file.
    """
    try:
        _update(name)
        if summary:
            _create_artifact(layout, recorder, summary)
    except HTTPError as error:
        print_warning(f"prefect: no summary of this run there ({failure(error)})")


def _create_artifact(layout: Layout, recorder: Recorder, summary: str) -> None:
    decision = summary.splitlines()[0]
    logger.info("%s", decision)
    links = [f"[{text}]({address})" for text, address in recorder.links(layout.page).items()]
    where = " · ".join([*links, f"`{layout.page}` on `{gethostname()}`"])
    create_markdown_artifact(f"{summary}\n\n{where}\n", key="page", description=decision)


def _update(name: str) -> None:
    with get_client(sync_client=True) as client:
        client.update_flow_run(UUID(flow_run.id), name=name)


def failure(error: Exception) -> str:
    """How a request to a server failed, in words."""
    return f"status {error.response.status_code}" if isinstance(error, HTTPStatusError) else "no answer"


def summary_of(record: RunRecord) -> str:
    """The decision, then pass@k before and after with the paired change, in Markdown, and what decided the selection.

    Without any text of a model.
    """
    names = ("pass_at_1_greedy", *(f"pass_at_{k}" for k in record.evaluation.ks))
    rows = [
        [title_of(measure.name), level(measure.first), level(measure.second), change(measure.difference)]
        for measure in changes(record)
        if measure.name in names
    ]
    *_, before, after = record.policies()
    table = _markdown([[f"{len(record.outcomes['after'])} test problems", before, after, "change"], *rows])
    if levels := policy_levels(record):
        table += ["", *_markdown(levels)]
    lines = [
        *([record.power] if record.power else []),
        *record.alarms,
        *record.selection_lines,
        *record.audit_lines,
        *record.baseline_lines,
    ]
    lines += [f"On {line}." for line in record.kept]
    return "\n".join([record.decision, "", *table, *(f"\n{line}" for line in lines)])


def _markdown(rows: list[list[str]]) -> list[str]:
    """A table, its titles first."""
    return [f"| {' | '.join(row)} |" for row in (rows[0], ["---"] * len(rows[0]), *rows[1:])]
