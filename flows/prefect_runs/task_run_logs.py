"""Prefect's pages of a task run: the lines and warnings that the code of its stage logs, and the result of the stage.

Prefect's own setting, PREFECT_LOGGING_EXTRA_LOGGERS, is read when Prefect is imported: before Graft can set it in the
process of a worker, and it warns of each line that a thread logs outside a run.
"""

import logging
from functools import cache

from prefect.context import FlowRunContext, TaskRunContext
from prefect.logging.handlers import APILogHandler


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
    for name in ("flows", "tasks"):
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(logging.INFO)
    logging.getLogger("prefect.task_runs").addFilter(says_more)


def says_more(record: logging.LogRecord) -> bool:
    """False for Prefect's line "Finished in state Completed(…)": the stage's own line says it, with its seconds."""
    return record.levelno > logging.INFO or not record.getMessage().startswith("Finished in state ")
