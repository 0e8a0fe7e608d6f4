"""Law: a signal while DVC writes its list of readers and writers leaves a whole list, and ends the command after it."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dvc import rwlock
from dvc.fs import localfs

from flows.dvc_stages.patches.atomic_files import edit_rwlock, processes_at_work
from flows.process.signals import ENDING, SignalHandler, Terminated

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
