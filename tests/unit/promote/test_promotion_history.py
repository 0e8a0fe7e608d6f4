from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.promote.champion import champions_in_line
from tasks.records.promotion import Succession, SuccessionKind


def step(how: SuccessionKind, version: str, replaced: str | None) -> Succession:
    return Succession(version=version, replaced=replaced, how=how, reason=f"{how} {version}", time="")


PROMOTED = [step("promoted", "a", None), step("promoted", "b", "a"), step("promoted", "c", "b")]


ONCE = [*PROMOTED, step("rolled back", "b", "c")]
OUT_OF_B = {"c": "rolled back b"}


@pytest.mark.parametrize(("history", "champions", "rolled_back"), [
    ([], [], {}), (PROMOTED, ["a", "b", "c"], {}), (ONCE, ["a", "b"], OUT_OF_B),
    ([*ONCE, step("rolled back", "a", "b")], ["a"], {**OUT_OF_B, "b": "rolled back a"}),
    ([*PROMOTED, step("rolled back", "a", "c")], ["a"], {"b": "rolled back a", "c": "rolled back a"}),  # two steps back
    ([*ONCE, step("rolled back", "c", "b")], ["a", "b", "c"], {}),
    ([*ONCE, step("promoted", "d", "b")], ["a", "b", "d"], OUT_OF_B),  # follows the champion of then
])  # fmt: skip
def test_champions_and_versions_rolled_back(
    history: list[Succession], champions: list[str], rolled_back: dict[str, str]
) -> None:
    assert champions_in_line(history) == (champions, rolled_back)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=20))
def test_the_champion_is_the_last_in_line_and_no_version_is_in_two_places(moves: Sequence[tuple[int, int]]) -> None:
    history: list[Succession] = []
    for kind, number in moves:
        champions, taken = champions_in_line(history)
        now = champions[-1] if champions else None
        if kind == 0 and str(number) not in taken and str(number) != now:
            history.append(step("promoted", str(number), now))
        elif kind == 1 and len(champions) > 1:
            history.append(step("rolled back", champions[number % (len(champions) - 1)], now))
        elif kind == 2 and taken:
            history.append(step("rolled back", sorted(taken)[number % len(taken)], now))
        champions, taken = champions_in_line(history)
        assert champions[-1:] == [one.version for one in history[-1:]]
        assert len(set(champions)) == len(champions)
        assert not set(champions) & taken.keys()
        assert set(champions) | taken.keys() == {one.version for one in history}
