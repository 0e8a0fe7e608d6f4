"""The progress of a search."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.core import progress
from tasks.search.tally import Tally, current_tally


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
    assert tally.finished == tally.completions - sum(left.values())
    done, solved = sum(count == 0 for count in left.values()), {p for p, reward in came if reward == 1.0}
    assert str(tally) == f"{done}/{len(awaited)} problems, {len(solved & awaited.keys())} solved"


def test_the_speed_is_that_of_the_last_batch() -> None:
    tally = Tally({"a": 2})
    assert str(tally) == "0/1 problems, 0 solved"
    tally.set_speed(500, 2.0)
    tally.set_speed(300, 2.0)
    assert str(tally) == "0/1 problems, 0 solved, 150 tokens/s"


def test_a_worker_process_reports_no_search_of_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    for tally in (Tally({"a": 2}), current_tally()):
        tally.set_sampled(1)
    assert capsys.readouterr().err == "search: 0/1 problems, 0 solved, 1 of at most 2 completions\n"
