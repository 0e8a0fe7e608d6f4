"""Progress of long work on stderr."""

import os
import pty
import sys
from contextlib import suppress

import pytest

from tasks.core import progress
from tasks.core.progress import show_progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that the progress log reads."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_log_gets_a_line_a_minute(
    clock: list[float], capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with show_progress("update", 9, "steps", done=1) as advance:
        for seconds in (1.0, 59.9, 60.0, 61.0, 119.9, 150.0):
            clock[0] = seconds
            advance(note="7 tokens/s")
    assert capsys.readouterr().err.splitlines() == [record.message for record in caplog.records]
    assert [record.message for record in caplog.records] == [
        "update: 4 of 9 steps, 7 tokens/s",
        "update: 7 of 9 steps, 7 tokens/s",
    ]


def test_of_several_processes_the_first_one_prints(
    clock: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    with show_progress("update", 2, "steps") as advance:
        clock[0] = 100.0
        advance()
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar_and_no_lines(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    drawn = b""
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("TERM", "xterm")
        with show_progress("evaluate", 4, "completions") as advance:
            clock[0] = 100.0
            advance(3, "soon")
    with suppress(OSError):  # what Linux answers at the end
        while piece := os.read(ours, 4096):
            drawn += piece
    os.close(ours)
    assert "75%" in drawn.decode()
    assert "3 of 4" not in drawn.decode()
