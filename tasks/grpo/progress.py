"""Progress bar and throughput of an update."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class ThroughputMeter:
    """Completion tokens per second since construction. For display alone: times differ from run to run."""

    def __init__(self, report: Callable[[float], None]) -> None:
        """`report` is called with the speed after each step."""
        self._report, self._tokens, self._started = report, 0.0, time.monotonic()

    def add(self, tokens: float) -> None:
        """Count a finished step of `tokens` completion tokens."""
        self._tokens += tokens
        self._report(self.tokens_per_second)

    @property
    def tokens_per_second(self) -> float:
        return self._tokens / max(time.monotonic() - self._started, 1e-9)


@contextmanager
def update_progress(steps: int, done: int) -> Iterator[ThroughputMeter]:
    """A progress bar on a terminal, `done` of `steps` full at first; each finished step advances it."""
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    columns = (*Progress.get_default_columns(), TextColumn("{task.fields[speed]:.0f} tokens/s"))
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as bars:
        bar = bars.add_task("update", total=steps, completed=done, speed=0.0)
        yield ThroughputMeter(lambda speed: bars.update(bar, advance=1, speed=speed))
