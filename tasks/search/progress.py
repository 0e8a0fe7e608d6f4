"""How far a search is, drawn while somebody watches."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


class Tally:
    """Problems done and solved. A problem is done when it may get no more completions, solved when one was right."""

    def __init__(self, awaited: Mapping[str, int]) -> None:
        """`awaited`: the most completions that each problem may get, by problem_id. Others do not count."""
        self._awaited = dict(awaited)
        self._solved: set[str] = set()
        self.problems, self.done, self.solved = len(self._awaited), 0, 0
        self.completions, self.left = sum(self._awaited.values()), sum(self._awaited.values())

    def add_completion(self, problem: str, reward: float) -> None:
        """A completion was judged."""
        if problem not in self._awaited:
            return
        self._leave(problem, max(0, self._awaited[problem] - 1))
        if reward == 1.0:
            self._solved.add(problem)
            self.solved = len(self._solved)

    def close(self, problem: str) -> None:
        """The problem gets no more completions."""
        if problem in self._awaited:
            self._leave(problem, 0)

    def close_all(self, problems: Iterable[str], solved: Iterable[str]) -> None:
        """Problems that were searched somewhere else, perhaps: they get no more completions, and these are solved."""
        for problem in problems:
            self.close(problem)
        self._solved |= self._awaited.keys() & set(solved)
        self.solved = len(self._solved)

    def _leave(self, problem: str, awaited: int) -> None:
        self.left -= self._awaited[problem] - awaited
        self.done += awaited == 0 < self._awaited[problem]
        self._awaited[problem] = awaited

    def __str__(self) -> str:
        return f"{self.done}/{self.problems} problems, {self.solved} solved"


_watched: ContextVar[Tally | None] = ContextVar("tally", default=None)


def current_tally() -> Tally:
    """The tally that is shown; in a process where nobody watches, one that counts nothing."""
    return _watched.get() or Tally({})


@contextmanager
def show_progress(tally: Tally, title: str, console: "Console") -> Iterator[None]:
    """Draw a tally while the block runs, and nothing where the console is no terminal."""
    from rich.progress import Progress, ProgressColumn, Task, TimeElapsedColumn
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    class Bar(ProgressColumn):
        """The share of the completions, which goes on while many problems are under way at once."""

        def render(self, task: Task) -> ProgressBar:  # noqa: ARG002
            return ProgressBar(max(1, tally.completions), tally.completions - tally.left, width=40)

    class Standing(ProgressColumn):
        def render(self, task: Task) -> Text:  # noqa: ARG002
            return Text(str(tally))

    columns = (title, Bar(), Standing(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.file.isatty(), transient=True) as progress:
        progress.add_task(title, total=None)
        token = _watched.set(tally)
        try:
            yield
        finally:
            _watched.reset(token)
