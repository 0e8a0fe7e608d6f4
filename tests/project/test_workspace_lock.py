"""Law: one run at a time in a folder; the lock goes with the process that held it, however that ends."""

import errno
import fcntl
import os
from pathlib import Path
from threading import Event, Thread

import pytest

from flows.process.exit_codes import line_and_code
from flows.process.workspace_lock import (
    WorkspaceLockedError,
    exclusive_lock,
    holders,
    is_held,
    is_run_at_work,
    shared_lock,
)
from tests.support.processes import holding
from tests.support.tiny_project import begin, graft, ran


def test_a_second_run_is_told_who_is_at_work_and_since_when(tmp_path: Path) -> None:
    process = holding(tmp_path)
    (who,) = holders(tmp_path)
    assert who.startswith(f"graft retrain (process {process.pid}, since 20")
    with (
        pytest.raises(WorkspaceLockedError, match=r"is at work here; wait until it ends, or stop it$") as told,
        exclusive_lock(tmp_path, "b"),
    ):
        pass
    assert who in str(told.value)
    with pytest.raises(WorkspaceLockedError), shared_lock(tmp_path, "graft stage"):
        pass
    process.communicate("")
    assert holders(tmp_path) == []
    with exclusive_lock(tmp_path, "b"):
        assert holders(tmp_path)[0].startswith(f"b (process {os.getpid()}, ")


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    process = holding(tmp_path)
    process.kill()
    process.wait()
    assert holders(tmp_path) == []
    with exclusive_lock(tmp_path, "after"):
        pass


@pytest.mark.parametrize("torn", [b'{"pid": 1, "si', b"\xff\xfe\n", b"[]\n", b'{"pid": "x"}', b"\0\0"])
def test_a_torn_file_tells_nothing_and_stops_nobody(tmp_path: Path, torn: bytes) -> None:
    """Nor does a process that never was: the kernel alone says who holds the lock."""
    process = holding(tmp_path)
    (tmp_path / ".graft" / "lock").write_bytes(torn + b'\n{"pid": 99999999999, "since": "ever", "what": "nobody"}\n')
    assert holders(tmp_path) == []
    with (
        pytest.raises(WorkspaceLockedError, match=r": another graft is at work here; wait until it ends"),
        exclusive_lock(tmp_path, "b"),
    ):
        pass
    process.communicate("")
    with exclusive_lock(tmp_path, "b"):
        assert [who.split()[0] for who in holders(tmp_path)] == ["b"]


def test_the_kernel_alone_says_whether_the_lock_is_held(tmp_path: Path) -> None:
    """In a new container the pid of a run that was killed may be that of any process, and one elsewhere is not seen."""
    lock = tmp_path / ".graft" / "lock"
    assert not is_held(tmp_path)
    lock.parent.mkdir()
    killed = f'{{"pid": {os.getpid()}, "since": "2026-11-22 03:00:00", "what": "graft retrain"}}\n'
    lock.write_text(killed)
    assert (is_held(tmp_path), is_held(tmp_path, alone=True), is_run_at_work(tmp_path)) == (False, False, False)
    with shared_lock(tmp_path, "graft stage search"):
        assert lock.read_text().startswith(killed)
        assert (is_held(tmp_path), is_held(tmp_path, alone=True), is_run_at_work(tmp_path)) == (True, False, False)
    process = holding(tmp_path)
    lock.write_text(killed.replace(str(os.getpid()), str(2**31 - 1)))
    assert (is_held(tmp_path), is_held(tmp_path, alone=True), is_run_at_work(tmp_path)) == (True, True, True)
    process.communicate("")
    assert not is_held(tmp_path)


def test_who_asks_whether_the_lock_is_held_turns_nobody_away(tmp_path: Path) -> None:
    over = Event()

    def ask() -> None:
        while not over.is_set():
            is_held(tmp_path)

    with exclusive_lock(tmp_path, "first"):
        pass
    asking = Thread(target=ask)
    asking.start()
    try:
        for _ in range(200):
            with exclusive_lock(tmp_path, "again"):
                pass
    finally:
        over.set()
        asking.join()


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an NFS share without its lock daemon."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    (tmp_path / ".graft").mkdir()
    (tmp_path / ".graft" / "lock").touch()
    monkeypatch.setattr(fcntl, "flock", refuse)
    for ask in (lambda: is_held(tmp_path), lambda: exclusive_lock(tmp_path, "a").__enter__()):
        with pytest.raises(OSError, match="No locks") as refused:
            ask()
        line, code = line_and_code(refused.value)
        assert (line.partition(";")[0], code) == (
            f"{os.getcwd()}: its file system gives no locks (No locks available)",
            2,
        )


def test_stages_are_beside_each_other_but_not_beside_a_run(tmp_path: Path) -> None:
    with shared_lock(tmp_path, "one"), shared_lock(tmp_path, "two"):
        assert [who.split()[0] for who in holders(tmp_path)] == ["one", "two"]
        with (
            pytest.raises(WorkspaceLockedError, match=r"one .*, two .* is at work here"),
            exclusive_lock(tmp_path, "a run"),
        ):
            pass


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / ".graft").write_text("a file")
    with pytest.raises(Exception, match=r"\.graft"), exclusive_lock(tmp_path, "a run"):
        pass


@pytest.mark.slow
def test_while_a_run_is_at_work_nobody_else_changes_params(done: Path, prefect_api: str) -> None:
    """Not the params either: the stages of the run read them when their turn comes."""
    process = begin(done, "promote", "retrain", "-S", "evaluation.temperature=0.5", PREFECT_API_URL=prefect_api)
    ran(done)
    params = (done / "params.yaml").read_bytes()
    for arguments in (["retrain", "-S", "update.beta=0.5"], ["stage", "-S", "update.beta=0.5", "update@1"]):
        told = graft(done, *arguments, code=2)
        assert f"graft retrain (process {process.pid}, since " in told.stderr
        assert told.stderr.count("\n") == 1
        assert told.stdout == ""
    assert (done / "params.yaml").read_bytes() == params
    assert ran(done) == []
    process.kill()
    process.communicate()
