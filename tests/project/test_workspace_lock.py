"""Law: one run at a time in a folder; the lock goes with the process that held it, however that ends."""

import os
from pathlib import Path

import pytest

from flows.process.workspace_lock import WorkspaceLockedError, exclusive_lock, holders, shared_lock
from tests.support.tiny_project import begin, graft, ran
from tests.support.workspace_holder import holding


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
