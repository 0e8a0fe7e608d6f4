"""Laws of child processes, with real ones: none outlives its parent, and none escapes `kill_tree`."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tasks.core.child_process import CODE, end_with_parent, kill_tree, last_line, spawn
from tests.support.processes import has_ended

PARENT = """
import sys, time
from tasks.core.child_process import spawn
spawn("tests.support.tied_child", sys.argv[1])
time.sleep(300)
"""


def pids_in(file: Path) -> list[int]:
    """What `tied_child` writes."""
    limit = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < limit
        time.sleep(0.01)
    return [int(pid) for pid in file.read_text().split()]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_and_its_group_end_with_the_parent(number: signal.Signals, tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path / "pids")], cwd=CODE)
    child, in_group, alone = pids_in(tmp_path / "pids")
    parent.send_signal(number)
    parent.wait(20)
    try:
        assert has_ended(child)
        assert has_ended(in_group)
    finally:
        psutil.Process(alone).kill()


def test_all_descendants_are_killed(tmp_path: Path) -> None:
    process = spawn("tests.support.tied_child", str(tmp_path / "pids"), "untied")
    pids = pids_in(tmp_path / "pids")
    assert kill_tree(process) == -signal.SIGKILL
    assert all(has_ended(pid) for pid in pids)
    assert kill_tree(process) == -signal.SIGKILL  # nothing is left to do


def test_children_of_a_process_that_has_ended_are_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import subprocess; print(subprocess.Popen(['sleep', '300'], stdout=subprocess.DEVNULL).pid)"
    (tmp_path / "orphan_maker.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    process = spawn("orphan_maker", stdout=subprocess.PIPE, text=True)
    with process.stdout as output:
        pid = int(output.read())
    kill_tree(process)
    assert has_ended(pid)


def test_a_child_imports_this_graft_wherever_it_starts(tmp_path: Path) -> None:
    """And nothing from the folder that it starts in."""
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "__init__.py").write_text("raise SystemExit(7)")
    process = spawn("tasks.core.child_process", cwd=tmp_path)
    assert process.wait(60) == 0


def test_a_process_ends_when_what_it_waits_for_has_happened() -> None:
    """In the group of its parent, it ends no other process."""
    code = f"from {end_with_parent.__module__} import *\nend_with_parent(lambda: None)\nimport time; time.sleep(300)"
    assert subprocess.run([sys.executable, "-c", code], cwd=CODE, timeout=60).returncode == 1


@pytest.mark.parametrize(("text", "line"), [("", ""), ("a\n b \n\n", "b"), ("why\n=====\n", "why"), ("\n \n", "")])
def test_the_last_line_of_a_log(text: str, line: str) -> None:
    assert last_line(text) == line
