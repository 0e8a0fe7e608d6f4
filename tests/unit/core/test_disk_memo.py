"""Laws of what is known from before: the same numbers, computed once, and never another call's."""

from pathlib import Path

import pytest

from flows.reports.comparison import sign_flip_p
from tasks.core.disk_memo import knowing, known
from tasks.statistics.intervals import difference_interval


class Counted:
    """A sum, and how often it was made."""

    def __init__(self) -> None:
        self.times = 0

        @known
        def total(values: list[float], seed: int) -> float:
            self.times += 1
            return sum(values) + seed

        self.total = total


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "known.json"


def test_the_same_call_is_made_once(file: Path) -> None:
    counted = Counted()
    for _ in range(2):
        with knowing(file):
            assert [counted.total([0.1, 0.2], 1) for _ in range(2)] == [0.1 + 0.2 + 1] * 2
    assert counted.times == 1


def test_another_call_is_another_value(file: Path) -> None:
    counted = Counted()
    with knowing(file):
        assert [counted.total(*call) for call in (([0.1], 1), ([0.1], 2), ([0.2], 1), ([], 1))] == [1.1, 2.1, 1.2, 1]


def test_outside_nothing_is_remembered() -> None:
    counted = Counted()
    assert [counted.total([1.0], 0), counted.total([1.0], 0)] == [1.0, 1.0]
    assert counted.times == 2


def test_what_nobody_asks_for_is_forgotten(file: Path) -> None:
    counted = Counted()
    for seed in (1, 2, 1):
        with knowing(file):
            counted.total([], seed)
    assert counted.times == 3


@pytest.mark.parametrize("text", ["", "{", '{"values": ["a"]}', "[]", "\x00"])
def test_a_damaged_file_is_as_none(file: Path, text: str) -> None:
    file.write_text(text)
    counted = Counted()
    with knowing(file):
        assert counted.total([1.0], 0) == 1.0
    with knowing(file):
        assert counted.total([1.0], 0) == 1.0
    assert counted.times == 1


def test_a_file_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    counted = Counted()
    (tmp_path / "a file").touch()
    for _ in range(2):
        with knowing(tmp_path / "a file" / "known.json"):
            assert counted.total([1.0], 0) == 1.0
    assert counted.times == 2


def test_the_numbers_of_a_run_are_exact(file: Path) -> None:
    after, before = [0.1, 1 / 3, 1.0, 0.7] * 9, [0.2, 0.0, 1.0, 1e-9] * 9
    computed = difference_interval(after, before, 200, 0.95, 7), sign_flip_p(after, before, 200, 7)
    for _ in range(2):
        with knowing(file):
            assert (difference_interval(after, before, 200, 0.95, 7), sign_flip_p(after, before, 200, 7)) == computed
    with knowing(file):
        assert difference_interval(before, after, 200, 0.95, 7) != computed[0]
