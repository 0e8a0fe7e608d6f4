"""Publish a run: its name and a summary in Prefect, its page in the folder and in MLflow."""

import logging
import sys
from collections.abc import Mapping
from socket import gethostname
from typing import Any, NamedTuple
from uuid import UUID

from httpx import HTTPError, HTTPStatusError
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.orchestration import get_client
from prefect.runtime import flow_run

from flows.history.changes import Overrides, as_text
from flows.history.run_history import Changes
from flows.reports.comparison import Change, changes, level_with_interval, title_of
from flows.reports.html.page import write_page
from flows.reports.run_record import RunRecord
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.redaction import redacted
from tasks.statistics.intervals import CONFIDENCE
from tasks.tracking.recorder import Recorder

logger = logging.getLogger(__name__)

PAGE, PASS_AT_K = "page", "pass-at-k"
"""The keys of the artifacts of a finished run."""


class Summary(NamedTuple):
    """`text` is Markdown: the decision in the first line, then the table. No text of a model is included."""

    text: str
    table: list[dict[str, str]]


def publish_name(name: str, parameters: dict[str, Any] | None = None) -> None:
    """Give the Prefect flow run the name of the run, and the parameters that its page shows."""
    try:
        _update(name, parameters)
    except HTTPError as error:
        print(f"warning: prefect: no name of this run there ({failure(error)})", file=sys.stderr)


def parameters(params: Params, changed: Overrides, preset: str | None, tags: Mapping[str, str]) -> dict[str, Any]:
    """What the page of the flow run shows as its parameters. `tags`: those of git."""
    more = " with uncommitted changes" if tags.get("git_dirty") == "true" else ""
    return {
        "preset": preset or "none",
        "params": redacted(as_text(changed)) or "as committed",
        "base": redacted(params.policy.base),
        "rounds": params.rounds.last,
        "commit": f"{tags['git_commit'][:8]}{more}" if "git_commit" in tags else "none",
    }


def publish_page(layout: Layout, recorder: Recorder) -> RunRecord | None:
    """Write the page of a finished run, hand it to MLflow and return the record of the run.

    Its stages are done, so an error is a warning, and an older page is removed.
    """
    try:
        record = write_page(layout)
    except GraftError as error:
        for old in (layout.account, layout.page):
            old.unlink(missing_ok=True)
        print(f"warning: no page and no report of this run: {error}", file=sys.stderr)
        return None
    recorder.files(layout.account, layout.page)
    return record


def publish_summary(layout: Layout, recorder: Recorder, name: str, summary: Summary | None) -> None:
    """The final name of the Prefect flow run, and its summary as two artifacts: a page with links to MLflow, a table.

    The decision is in the log of the flow run, too. The HTML page is named by its path without a link: browsers refuse
    links from a server's page to a local file.
    """
    try:
        _update(name)
        if summary:
            _create_artifacts(layout, recorder, summary)
    except HTTPError as error:
        print(f"warning: prefect: no summary of this run there ({failure(error)})", file=sys.stderr)


def _create_artifacts(layout: Layout, recorder: Recorder, summary: Summary) -> None:
    decision = summary.text.splitlines()[0]
    logger.info("%s", decision)
    addresses = {"page": recorder.url(layout.page), "MLflow run": recorder.url()}
    links = [f"[{text}]({address})" for text, address in addresses.items() if address]
    where = " · ".join([*links, f"`{layout.page}` on `{gethostname()}`"])
    create_markdown_artifact(f"{summary.text}\n\n{where}\n", key=PAGE, description=decision)
    create_table_artifact(summary.table, key=PASS_AT_K, description=decision)


def _update(name: str, parameters: dict[str, Any] | None = None) -> None:
    with get_client(sync_client=True) as client:
        client.update_flow_run(UUID(flow_run.id), name=name, parameters=parameters)


def failure(error: Exception) -> str:
    """How a request to a server failed, in words."""
    return f"status {error.response.status_code}" if isinstance(error, HTTPStatusError) else "no answer"


def summary_of(record: RunRecord) -> Summary:
    """The decision, and pass@k before and after with the change and its paired interval, as in the report of a run."""
    names = ("pass_at_1_greedy", *(f"pass_at_{k}" for k in record.evaluation.ks))
    table = [_row(record, found) for found in changes(record) if found.name in names]
    rows = ["| " + " | ".join(row.values()) + " |" for row in table]
    titles = [f"{len(record.outcomes['after'])} test problems", *list(table[0])[1:]]
    head = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    return Summary("\n".join([record.decision, "", *head, *rows]), table)


def _row(record: RunRecord, found: Change) -> dict[str, str]:
    difference = found.difference
    return {
        "measure": title_of(found.name),
        "before": level_with_interval(record.numbers("evaluate@before"), found.name),
        "after": level_with_interval(record.numbers("evaluate@after"), found.name),
        "change": f"{difference.mean:+.3f}",
        f"{100 * CONFIDENCE:g} % interval": f"{difference.low:+.3f} … {difference.high:+.3f}",
    }


def with_params(summary: str, differ: Changes | None, overrides: Overrides) -> str:
    """The summary, and below it the params that differ from the commit and from the last run that succeeded."""
    parts = [summary, *_table("Params that differ from the commit", "committed", overrides)]
    if differ:
        parts += _table("Params that differ from the run before", "before", differ.params)
        parts += [f"From the run before differ: {', '.join(differ.others)}"] if differ.others else []
    return "\n\n".join(parts)


def _table(title: str, old: str, params: Overrides) -> list[str]:
    rows = [f"| {key} | {before} | {now} |" for key, (before, now) in params.items()]
    return ["\n".join([f"| {title} | {old} | this run |", "|---|---|---|", *rows])] if rows else []
