"""Progress bar and throughput of an update."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class ThroughputMeter:
    """Tokens a second since it was made. Times never go into what a run writes: they differ from run to run."""

    def __init__(self, tell: Callable[[float], None]) -> None:
        """`tell` hears of the speed after each step."""
        self._tell, self._tokens, self._started = tell, 0.0, time.monotonic()

    def add(self, tokens: float) -> None:
        """A step with so many completion tokens is done."""
        self._tokens += tokens
        self._tell(self.tokens_per_second)

    @property
    def tokens_per_second(self) -> float:
        return self._tokens / max(time.monotonic() - self._started, 1e-9)


@contextmanager
def update_progress(steps: int, done: int) -> Iterator[ThroughputMeter]:
    """A bar on a terminal, `done` of `steps` full at first; each step moves it on."""
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    columns = (*Progress.get_default_columns(), TextColumn("{task.fields[speed]:.0f} tokens/s"))
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as bars:
        bar = bars.add_task("update", total=steps, completed=done, speed=0.0)
        yield ThroughputMeter(lambda speed: bars.update(bar, advance=1, speed=speed))
