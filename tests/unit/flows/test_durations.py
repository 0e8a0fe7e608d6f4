"""The seconds that a stage took the last time."""

from pathlib import Path

import pytest

from flows.stages.durations import last_seconds, record_duration
from tasks.layout import Layout


def test_the_last_run_counts_and_that_of_another_round_where_one_never_ran(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert last_seconds(layout, "search@1") is None
    for seconds in (10.0, 12.3456):
        record_duration(layout, "search@1", seconds)
    assert [last_seconds(layout, stage_id) for stage_id in ("search@1", "search@7", "reward@1")] == [
        12.346,
        12.346,
        None,
    ]
    record_duration(layout, "search@7", 1.0)
    assert last_seconds(layout, "search@7") == 1.0


def test_a_damaged_file_is_written_again_and_a_full_disk_only_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = Layout(tmp_path)
    record_duration(layout, "promote", 10.0)
    layout.seconds("promote").write_text("{")
    assert last_seconds(layout, "promote") is None
    record_duration(layout, "promote", 4.0)
    assert last_seconds(layout, "promote") == 4.0
    layout.seconds("choose").mkdir()
    record_duration(layout, "choose", 4.0)
    assert capsys.readouterr().err.startswith("warning: how long choose took is not noted")
