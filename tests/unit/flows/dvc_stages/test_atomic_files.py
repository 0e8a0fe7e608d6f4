"""DVC's list of readers and writers, announced once by whoever has announced it already."""

import json
from pathlib import Path

import pytest
from dvc.fs import localfs
from dvc.lock import LockError

from flows.dvc_stages.patches.atomic_files import rwlock_once


def announced(folder: Path) -> dict[str, list[str]]:
    found = json.loads((folder / "rwlock").read_text())
    return {mode: sorted(found.get(mode, {})) for mode in ("read", "write")}


def test_inner_blocks_announce_only_what_is_new(tmp_path: Path) -> None:
    def block(read: list[str], write: list[str]):  # type: ignore[no-untyped-def]
        return rwlock_once(str(tmp_path), localfs, "graft", read, write, False)

    with block(["/a"], ["/b"]):
        stamp = (tmp_path / "rwlock").stat().st_mtime_ns
        with block(["/a", "/b"], []), block([], ["/b"]):
            assert (tmp_path / "rwlock").stat().st_mtime_ns == stamp
        assert announced(tmp_path) == {"read": ["/a"], "write": ["/b"]}
        with block(["/c"], ["/b"]):
            assert announced(tmp_path) == {"read": ["/a", "/c"], "write": ["/b"]}
        assert announced(tmp_path) == {"read": ["/a"], "write": ["/b"]}
    assert announced(tmp_path) == {"read": [], "write": []}


def test_what_another_process_writes_is_busy(tmp_path: Path) -> None:
    (tmp_path / "rwlock").write_text(json.dumps({"write": {"/b": {"pid": 1, "cmd": "dvc repro"}}, "read": {}}))
    for read, write in ((["/b"], []), ([], ["/b"])):
        with (
            pytest.raises(LockError, match="dvc repro"),
            rwlock_once(str(tmp_path), localfs, "graft", read, write, False),
        ):
            pass
    with rwlock_once(str(tmp_path), localfs, "graft", ["/a"], [], False):
        assert announced(tmp_path) == {"read": ["/a"], "write": ["/b"]}
