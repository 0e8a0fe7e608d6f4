"""Progress of long work on stderr: a bar on a terminal, elsewhere a line a minute. An observer may follow it."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

SECONDS = 60.0
"""Least time between two lines."""


class Advance(Protocol):
    """Counts work that is done; `note` is displayed after the count."""

    def __call__(self, count: int = 1, note: str = "") -> None: ...


Observer = Callable[[float, str], None]
"""Called often with the share of the work that is done, 0 to 1, and a line that says where it stands."""

_observer: ContextVar[Observer | None] = ContextVar("observer", default=None)


@contextmanager
def observe_progress(by: Observer) -> Iterator[None]:
    """Let `by` follow the progress of work in the block. It must return at once."""
    token = _observer.set(by)
    try:
        yield
    finally:
        _observer.reset(token)


class ProgressLog:
    """Prints where the work stands, a line a minute, where stderr is no terminal; in the first of several processes."""

    def __init__(self) -> None:
        self._enabled = not sys.stderr.isatty() and os.environ.get("RANK", "0") == "0"
        self._last = time.monotonic()
        self._observer = _observer.get()

    def report(self, share: float, line: str) -> None:
        """Tell the observer; print the line if a minute has passed since the last one, or since construction."""
        if self._observer:
            self._observer(share, line)
        if self._enabled and time.monotonic() - self._last >= SECONDS:
            self._last = time.monotonic()
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
            log.report(done / max(total, 1), f"{title}: {done} of {total} {unit}{note and f', {note}'}")

        yield advance
