"""Prefect's pages of a task run: the lines and warnings that the code of its stage logs, the result of the stage, and a
progress bar where it takes long.

Prefect's own setting, PREFECT_LOGGING_EXTRA_LOGGERS, is read when Prefect is imported: before Graft can set it in the
process of a worker, and it warns of each line that a thread logs outside a run.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from typing import Any

from httpx import HTTPError
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.context import FlowRunContext, TaskRunContext
from prefect.logging.handlers import APILogHandler
from prefect.runtime import task_run

from tasks.core.progress import observe_progress

LOGGERS = ("flows", "tasks")
"""The loggers of Graft's own modules."""

KEY = "progress"
"""One key for all stages: its latest version is the stage that is computed now."""

SECONDS = 5.0
"""Time between two updates. A stage that takes less has no artifact."""


class RunLogHandler(APILogHandler):
    """Sends the lines that are logged inside a flow or task run to Prefect, in batches and by a thread of Prefect's."""

    def emit(self, record: logging.LogRecord) -> None:
        """Send a line; one that is logged outside a run belongs to no log."""
        if FlowRunContext.get() or TaskRunContext.get():
            super().emit(record)


@cache
def log_to_prefect() -> None:
    """Send what Graft's modules log, from INFO on, to Prefect; leave out that a task run ended as expected."""
    handler = RunLogHandler()
    for name in LOGGERS:
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(logging.INFO)
    logging.getLogger("prefect.task_runs").addFilter(says_more)


def says_more(record: logging.LogRecord) -> bool:
    """False for Prefect's line "Finished in state Completed(…)": the stage's own line says it, with its seconds."""
    return record.levelno > logging.INFO or not record.getMessage().startswith("Finished in state ")


@contextmanager
def show_in_prefect() -> Iterator[None]:
    """Keep an artifact of the progress of the work in the block, by a thread: the work never waits for Prefect.

    Called inside a task run.
    """
    bar = ProgressBar()
    threading.Thread(target=copy_context().run, args=(bar.follow,), name="progress", daemon=True).start()
    try:
        with observe_progress(bar.set):
            yield
    finally:
        bar.over.set()


class ProgressBar:
    """The artifact of the present task run, and what it is to show next."""

    def __init__(self) -> None:
        self._name = task_run.name
        self._now: tuple[float, str] | None = None
        self.over = threading.Event()

    def set(self, share: float, line: str) -> None:
        """Show this with the next update."""
        self._now = share, f"{self._name}: {line}"

    def follow(self) -> None:
        """Update the artifact until the stage is over. A server that fails ends it: the run itself warns of that."""
        artifact: Any = None
        shown = None
        while not self.over.wait(SECONDS) or (artifact and shown != self._now):
            now = self._now
            if now is None or now == shown:
                continue
            share, line = now
            data = round(100 * min(share, 1.0), 1)
            try:
                if artifact:
                    update_progress_artifact(artifact, data, description=line)
                else:
                    artifact = create_progress_artifact(data, key=KEY, description=line)
            except HTTPError:
                return
            shown = now
