"""Law: a signal while DVC writes its list of readers and writers leaves a whole list, and ends the command after it."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dvc import lock as dvc_lock
from dvc import rwlock
from dvc.fs import localfs

from flows.dvc_stages.patches.atomic_files import edit_rwlock, processes_at_work
from flows.dvc_stages.pipeline import DvcPipeline, translate_dvc_errors
from flows.process.signals import ENDING, SignalHandler, Terminated
from flows.project.new_project import new_project
from tasks.errors import GraftError

RAISED = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated, signal.SIGHUP: Terminated}


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.signal(number, signal.SIG_DFL) for number in ENDING}
    SignalHandler().install()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", RAISED)
def test_the_list_is_whole_after_a_signal(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered = []

    def dump_half(data: Any, stream: Any) -> None:
        text = json.dumps(data)
        stream.write(text[: len(text) // 2])
        stream.flush()
        os.kill(os.getpid(), number)
        stream.write(text[len(text) // 2 :])

    def work() -> None:
        with rwlock.rwlock(str(tmp_path), localfs, "graft", ["in"], ["out"], False):
            entered.append(True)

    monkeypatch.setattr(rwlock, "_edit_rwlock", edit_rwlock)
    monkeypatch.setattr(rwlock.json, "dump", dump_half)
    with pytest.raises(RAISED[number]):
        work()
    assert entered == []
    listed = rwlock.SCHEMA(json.loads((tmp_path / rwlock.RWLOCK_FILE).read_text()))
    assert [entry["pid"] for entry in listed["write"].values()] == [os.getpid()]


@pytest.mark.parametrize("left", [b"", b'{"write": {"run/pol', b"[]", b'{"read": {"a": 1}}', b"\xff"])
def test_a_torn_list_is_removed_and_a_whole_one_stays(tmp_path: Path, left: bytes) -> None:
    """DVC writes it in place: killed meanwhile it leaves half of it."""
    listed, whole = tmp_path / rwlock.RWLOCK_FILE, '{"write": {"run/a": {"pid": 7, "cmd": "dvc repro"}}}'
    listed.write_text(whole)
    assert processes_at_work(tmp_path) == {7}
    assert listed.read_text() == whole
    listed.write_bytes(left)
    assert processes_at_work(tmp_path) == set()
    assert not listed.exists()


@pytest.mark.parametrize("number", RAISED)
def test_a_signal_while_dvc_takes_its_lock_is_no_error_of_dvc(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has none while a stage computes, and says so as it cleans up: "Unlock called on an unlocked lock"."""
    taken = dvc_lock.zc.lockfile._lock_file

    def interrupted(*arguments: Any) -> None:
        taken(*arguments)
        os.kill(os.getpid(), number)

    def work() -> None:
        lock = dvc_lock.make_lock(str(tmp_path / "lock"), tmp_dir=str(tmp_path))
        with translate_dvc_errors(), lock:
            lock.unlock()
            monkeypatch.setattr(dvc_lock.zc.lockfile, "_lock_file", interrupted)
            lock.lock()

    with pytest.raises(RAISED[number]):
        work()
    monkeypatch.undo()
    with dvc_lock.make_lock(str(tmp_path / "lock"), tmp_dir=str(tmp_path)):
        pass


@pytest.mark.parametrize("name", ["dvc.lock", "dvc.yaml"])
def test_lists_without_end_are_named_with_their_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """DVC's own reader of YAML goes as deep as they do."""
    new_project(tmp_path / "new")
    monkeypatch.chdir(tmp_path / "new")
    subprocess.run(["git", "init", "-q"], check=True)
    Path(name).write_text("a: " + "[" * 100_000)
    with pytest.raises(GraftError, match=rf"(^|/){name}:1: more than 40 levels of nesting"):
        DvcPipeline(Path.cwd()).stale()
