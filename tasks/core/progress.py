"""Progress of long work on stderr: a bar on a terminal, elsewhere a line a minute, which is logged in either case."""

import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

logger = logging.getLogger(__name__)

SECONDS = 60.0
"""Least time between two lines."""


class Advance(Protocol):
    """Counts work that is done; `note` is displayed after the count."""

    def __call__(self, count: int = 1, note: str = "") -> None: ...


class ProgressLog:
    """Logs where the work stands, a line a minute, and prints it where stderr is no terminal.

    In the first of several processes. `graft retrain` sends what a stage logs to Prefect.
    """

    def __init__(self) -> None:
        self._enabled = os.environ.get("RANK", "0") == "0"
        self._last = time.monotonic()

    def report(self, line: str) -> None:
        """Log the line if a minute has passed since the last one, or since construction."""
        if not self._enabled or time.monotonic() - self._last < SECONDS:
            return
        self._last = time.monotonic()
        logger.info("%s", line)
        if not sys.stderr.isatty():
            print(line, file=sys.stderr, flush=True)


@contextmanager
def show_progress(title: str, total: int, unit: str, done: int = 0) -> Iterator[Advance]:
    """Display how many of `total` `unit` are done while the block runs: call the function with each number more."""
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    columns = (*Progress.get_default_columns(), TextColumn("{task.fields[note]}"))
    log = ProgressLog()
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as bars:
        bar = bars.add_task(title, total=total, completed=done, note="")

        def advance(count: int = 1, note: str = "") -> None:
            nonlocal done
            done += count
            bars.update(bar, advance=count, note=note)
            log.report(f"{title}: {done} of {total} {unit}{note and f', {note}'}")

        yield advance
