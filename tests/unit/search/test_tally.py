"""The progress of a search."""

import io
import os
import pty
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tasks.search.tally import Tally, show_tally


@given(st.dictionaries(st.sampled_from("abc"), st.integers(1, 4)), st.data())
def test_what_is_done_and_what_is_left_add_up(awaited: dict[str, int], data: st.DataObject) -> None:
    tally = Tally(awaited)
    came = data.draw(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([0.0, 0.9, 1.0, None])), max_size=20))
    for problem, reward in came:
        if reward is None:
            tally.close(problem)
        else:
            tally.add_completion(problem, reward)
    counts = {p: sum(name == p for name, reward in came if reward is not None) for p in awaited}
    ended = {p for p in awaited if (p, None) in came}
    left = {p: 0 if p in ended else max(0, awaited[p] - counts[p]) for p in awaited}
    assert tally.left == sum(left.values())
    assert tally.done == sum(count == 0 for count in left.values())
    assert tally.solved == len({p for p, reward in came if reward == 1.0} & awaited.keys())


def test_it_is_drawn_on_a_terminal_and_nowhere_else() -> None:
    ours, theirs = pty.openpty()
    tally, drawn = Tally({"a": 1, "b": 1}), b""
    with os.fdopen(theirs, "w") as terminal:
        console = Console(file=terminal, width=100, color_system=None, force_terminal=True)
        with show_tally(tally, "search@1", console):
            tally.add_completion("a", 1.0)
    with suppress(OSError):  # what Linux answers at the end
        while piece := os.read(ours, 4096):
            drawn += piece
    os.close(ours)
    assert "search@1" in drawn.decode()
    assert "1/2 problems, 1 solved" in drawn.decode()
    stream = io.StringIO()
    with show_tally(Tally({"a": 1}), "search@1", Console(file=stream, force_terminal=True)):
        pass
    assert stream.getvalue() == ""
