"""Publish a finished run: its page in the folder and in MLflow, a summary in Prefect."""

import logging
import sys
from socket import gethostname

from httpx import HTTPError, HTTPStatusError
from prefect.artifacts import create_markdown_artifact, create_table_artifact

from flows.reports.html.markdown import Summary
from flows.reports.html.page import write_page
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.tracking.recorder import Recorder

logger = logging.getLogger(__name__)

PAGE, PASS_AT_K = "page", "pass-at-k"
"""The keys of the artifacts of a finished run."""


def publish_page(layout: Layout, recorder: Recorder) -> Summary | None:
    """Write the page of a finished run, hand it to MLflow and return its summary.

    Its stages are done, so an error is a warning, and an older page is removed.
    """
    try:
        summary = write_page(layout)
    except GraftError as error:
        for old in (layout.account, layout.page):
            old.unlink(missing_ok=True)
        print(f"warning: no page of this run: {error}", file=sys.stderr)
        return None
    recorder.files(layout.account, layout.page)
    return summary


def publish_summary(layout: Layout, recorder: Recorder, summary: Summary) -> None:
    """The summary as two artifacts of the Prefect flow run, a page with links to MLflow and a table.

    The decision is in the log of the flow run, too. The HTML page is named by its path without a link: browsers refuse
    links from a server's page to a local file.
    """
    decision = summary.text.splitlines()[0]
    addresses = {"page": recorder.url(layout.page), "MLflow run": recorder.url()}
    links = [f"[{text}]({address})" for text, address in addresses.items() if address]
    where = " · ".join([*links, f"`{layout.page}` on `{gethostname()}`"])
    logger.info("%s", decision)
    try:
        create_markdown_artifact(f"{summary.text}\n\n{where}\n", key=PAGE, description=decision)
        create_table_artifact(summary.table, key=PASS_AT_K, description=decision)
    except HTTPError as error:
        print(f"warning: prefect: no summary of this run there ({failure(error)})", file=sys.stderr)


def failure(error: Exception) -> str:
    """How a request to a server failed, in words."""
    return f"status {error.response.status_code}" if isinstance(error, HTTPStatusError) else "no answer"
