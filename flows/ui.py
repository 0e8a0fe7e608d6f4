"""`graft ui`: Prefect's and the tracker's pages on a project's history, on loopback, until Ctrl-C."""

import time
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from flows.prefect_runs import temporary_server
from flows.prefect_runs.temporary_server import TemporaryServer
from tasks.layout import Layout
from tasks.params.machine import Tracking
from tasks.tracking import server
from tasks.tracking.server import TrackingServer, runs_url, server_address

TICK = 1.0
"""Seconds between two checks of the servers."""


def show(root: Path, tracking: Tracking, open_browser: bool) -> None:
    """Start the servers that are not there already, print the addresses of the pages, and keep them up until Ctrl-C.

    A run that is started in the meantime has a server of its own, on the same database. Raises GraftError if a server
    does not start, or ends.
    """
    with ExitStack() as stack, suppress(KeyboardInterrupt):
        tracker = prefect = None
        if tracking.store and not server_address(tracking.store):
            tracker = stack.enter_context(TrackingServer(root, tracking))
        known = prefect_pages()  # after the start of the other server: this imports Prefect
        if not known:
            prefect = TemporaryServer(part="pages")
            stack.callback(prefect.stop)
        if tracker or prefect:
            print("starting the servers, which takes some 15 s; Ctrl-C ends them", flush=True)
        for line, address in pages(root, tracking, tracker, prefect, known):
            print(line, flush=True)
            if open_browser and address:
                webbrowser.open(address)
        while tracker or prefect:
            time.sleep(TICK)
            if tracker:
                tracker.raise_if_gone()
            if prefect:
                prefect.restart_if_gone()


def pages(
    root: Path, tracking: Tracking, tracker: TrackingServer | None, prefect: TemporaryServer | None, known: str
) -> Iterator[tuple[str, str]]:
    """A line for each page as soon as it can be opened, and its address; "" if there is none."""
    page = Layout(root).page
    if page.exists():
        yield f"page     {page.as_uri()}", page.as_uri()
    else:
        yield "page     none yet: a run writes it, graft retrain", ""
    if prefect:
        address = f"{prefect.url().removesuffix('/api')}/runs"
        yield f"Prefect  {address}{moved(prefect.port, temporary_server.PORT)}", address
    else:
        yield f"Prefect  {known}/runs", f"{known}/runs"
    if tracker:
        address = tracker.url()
        yield f"{tracking.title}   {address}{moved(tracker.port, server.PORT)}", address
    elif tracking.store:
        address = runs_url(server_address(tracking.store), tracking.experiment)
        yield f"{tracking.title}   {address}", address
    elif not tracking.uri:
        yield f"{tracking.title}   off: machine.tracking.uri in params.yaml is empty", ""


def moved(port: int, wanted: int) -> str:
    """A note if a server is not at its usual port."""
    return "" if port == wanted else f"  (port {wanted} is taken)"


def prefect_pages() -> str:
    """The address of the pages of the user's own Prefect server; "" if there is none."""
    from prefect.settings import PREFECT_API_URL, PREFECT_UI_URL

    return str(PREFECT_UI_URL.value()).rstrip("/") if PREFECT_API_URL.value() else ""
