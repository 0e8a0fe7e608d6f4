from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tasks.promotion.history import fallback_order, rolled_back_versions
from tasks.records import Succession, SuccessionKind


def step(how: SuccessionKind, version: str, replaced: str | None) -> Succession:
    return Succession(version=version, replaced=replaced, how=how, reason=f"{how} {version}", time="")


PROMOTED = [step("promoted", "a", None), step("promoted", "b", "a"), step("promoted", "c", "b")]


def test_a_rollback_goes_back_one_champion_after_the_other() -> None:
    assert fallback_order([]) == []
    assert fallback_order(PROMOTED) == ["a", "b", "c"]
    once = [*PROMOTED, step("rolled back", "b", "c")]
    assert fallback_order(once) == ["a", "b"]
    assert rolled_back_versions(once) == {"c": "rolled back b"}
    twice = [*once, step("rolled back", "a", "b")]
    assert fallback_order(twice) == ["a"]
    assert rolled_back_versions(twice) == {"c": "rolled back b", "b": "rolled back a"}


def test_two_steps_at_once_take_both_back() -> None:
    history = [*PROMOTED, step("rolled back", "a", "c")]
    assert (fallback_order(history), set(rolled_back_versions(history))) == (["a"], {"b", "c"})


def test_a_rollback_that_is_undone_has_taken_nothing_back() -> None:
    history = [*PROMOTED, step("rolled back", "b", "c"), step("reinstated", "c", "b")]
    assert (fallback_order(history), rolled_back_versions(history)) == (["a", "b", "c"], {})


def test_who_is_promoted_after_a_rollback_follows_the_one_that_is_champion_then() -> None:
    history = [*PROMOTED, step("rolled back", "b", "c"), step("promoted", "d", "b")]
    assert (fallback_order(history), set(rolled_back_versions(history))) == (["a", "b", "d"], {"c"})


def test_a_history_that_begins_with_a_champion_knows_it() -> None:
    assert fallback_order([step("promoted", "b", "a")]) == ["a", "b"]
    assert fallback_order([step("rolled back", "a", "b")]) == ["a"]
    assert rolled_back_versions([step("rolled back", "a", "b")]) == {}


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=20))
def test_the_champion_is_the_last_of_the_line_and_nobody_is_in_two_places(moves: Sequence[tuple[int, int]]) -> None:
    history: list[Succession] = []
    for kind, number in moves:
        champions, taken = fallback_order(history), rolled_back_versions(history)
        now = champions[-1] if champions else None
        if kind == 0 and str(number) not in taken and str(number) != now:
            history.append(step("promoted", str(number), now))
        elif kind == 1 and len(champions) > 1:
            history.append(step("rolled back", champions[number % (len(champions) - 1)], now))
        elif kind == 2 and taken:
            history.append(step("reinstated", sorted(taken)[number % len(taken)], now))
        champions, taken = fallback_order(history), rolled_back_versions(history)
        assert champions[-1:] == [one.version for one in history[-1:]]
        assert len(set(champions)) == len(champions)
        assert not set(champions) & taken.keys()
        assert set(champions) | taken.keys() == {one.version for one in history}
