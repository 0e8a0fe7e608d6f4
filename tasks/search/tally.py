"""Progress of a search."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from tasks.core.progress import ProgressLog

if TYPE_CHECKING:
    from rich.console import Console


class Tally:
    """Counts of problems done and solved: done when no more completions may come, solved when one was right."""

    def __init__(self, awaited: Mapping[str, int]) -> None:
        """`awaited`: most completions of each problem by problem_id; other problems are ignored."""
        self._awaited = dict(awaited)
        self._solved: set[str] = set()
        self._sampled = 0  # completions of the current batch that are not yet evaluated
        self._speed = 0.0
        self._log = ProgressLog()
        self.completions = sum(awaited.values())

    def add_completion(self, problem: str, reward: float) -> None:
        """Count an evaluated completion."""
        self._sampled = max(0, self._sampled - 1)
        if problem in self._awaited:
            self._awaited[problem] = max(0, self._awaited[problem] - 1)
            if reward == 1.0:
                self._solved.add(problem)

    def set_sampled(self, count: int) -> None:
        """`count` completions of the current batch are sampled, and will be evaluated when all are."""
        self._sampled = count
        if self._awaited:  # not in a worker process, whose part the first process reports
            self._log.report(f"search: {self}, {self.finished} of at most {self.completions} completions")

    def set_speed(self, tokens: int, seconds: float) -> None:
        """The last batch had this number of tokens and took this long to sample."""
        self._speed = tokens / max(seconds, 1e-9)

    @property
    def finished(self) -> int:
        """Completions that are sampled, or that will never come."""
        return min(self.completions, self.completions - sum(self._awaited.values()) + self._sampled)

    def close(self, problem: str) -> None:
        """No more completions will come for the problem."""
        if problem in self._awaited:
            self._awaited[problem] = 0

    def close_all(self, problems: Iterable[str], solved: Iterable[str]) -> None:
        """Close problems, possibly searched in another process, of which `solved` are solved."""
        for problem in problems:
            self.close(problem)
        self._solved |= self._awaited.keys() & set(solved)

    def __str__(self) -> str:
        done = sum(count == 0 for count in self._awaited.values())
        speed = f", {self._speed:.0f} tokens/s" if self._speed else ""
        return f"{done}/{len(self._awaited)} problems, {len(self._solved)} solved{speed}"


_displayed: ContextVar[Tally | None] = ContextVar("tally", default=None)


def current_tally() -> Tally:
    """The tally that is displayed; an empty one in a worker process."""
    return _displayed.get() or Tally({})


@contextmanager
def show_tally(tally: Tally, title: str, console: "Console") -> Iterator[None]:
    """Display a tally while the block runs; nothing if the console is no terminal."""
    from rich.progress import Progress, ProgressColumn, Task, TimeElapsedColumn
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    class Bar(ProgressColumn):
        """Share of the completions: it moves even while many problems are open at once."""

        def render(self, task: Task) -> ProgressBar:  # noqa: ARG002
            return ProgressBar(max(1, tally.completions), tally.finished, width=40)

    class Counts(ProgressColumn):
        def render(self, task: Task) -> Text:  # noqa: ARG002
            return Text(str(tally))

    columns = (title, Bar(), Counts(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.file.isatty(), transient=True) as progress:
        progress.add_task(title, total=None)
        token = _displayed.set(tally)
        try:
            yield
        finally:
            _displayed.reset(token)
