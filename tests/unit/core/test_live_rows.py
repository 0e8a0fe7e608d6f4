"""Rows of an unfinished table: a reader sees the complete ones, whenever it looks."""

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.core.metrics_files import LiveRows

ROWS = [{"step": number, "loss": 1 / number} for number in range(1, 6)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "live" / "update@1.jsonl"


def test_rows_are_read_from_a_number_on_and_an_execution_replaces_those_of_an_earlier_one(path: Path) -> None:
    rows = LiveRows(path)
    assert rows.read(0) == []
    rows.begin(ROWS[:2])
    for row in ROWS[2:]:
        rows.add(row)
    assert [rows.read(start) for start in (0, 3, 5, 9)] == [ROWS, ROWS[3:], [], []]
    rows.begin(ROWS[:1])
    assert rows.read(0) == ROWS[:1]
    rows.remove()
    assert rows.read(0) == []
    rows.remove()


@given(st.data())
def test_a_torn_row_is_left_for_the_next_look(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("live") / "rows.jsonl"
    rows = LiveRows(path)
    rows.begin(ROWS)
    content = path.read_bytes()
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    seen = rows.read(0)
    assert seen == ROWS[: len(seen)]
    path.write_bytes(content)
    assert seen + rows.read(len(seen)) == ROWS


def test_a_file_that_cannot_be_written_is_one_warning(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.parent.write_text("a file where the folder belongs")
    rows = LiveRows(path)
    with caplog.at_level(logging.WARNING):
        rows.begin([])
        for row in ROWS:
            rows.add(row)
    assert [str(path) in record.message for record in caplog.records] == [True]
