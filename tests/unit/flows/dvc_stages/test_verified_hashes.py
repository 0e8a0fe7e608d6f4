"""Law: a process reads a file once, and again after any change, whatever the time stamps."""

import os
from hashlib import md5
from pathlib import Path

import pytest
from dvc.fs import localfs

from flows.dvc_stages.patches import verified_hashes
from flows.dvc_stages.patches.verified_hashes import VerifyingState


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    return path


@pytest.fixture
def state(tmp_path: Path) -> VerifyingState:
    return VerifyingState(str(tmp_path), str(tmp_path / "site"), None)


def hash_of(state: VerifyingState, path: Path) -> str:
    [(_, _, found)] = state.get_many([str(path)], localfs, {})
    return str(found.value)


def test_an_unchanged_file_is_read_once(state: VerifyingState, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hash_of(state, file) == md5(b"old").hexdigest()
    monkeypatch.setattr(verified_hashes, "file_md5", pytest.fail)
    assert hash_of(state, file) == md5(b"old").hexdigest()


def test_a_change_is_seen_though_size_inode_and_time_are_unchanged(state: VerifyingState, file: Path) -> None:
    before = file.stat()
    assert hash_of(state, file) == md5(b"old").hexdigest()
    file.write_bytes(b"new")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert hash_of(state, file) == md5(b"new").hexdigest()


def test_another_process_reads_for_itself(state: VerifyingState, file: Path, tmp_path: Path) -> None:
    state.save(str(file), localfs, verified_hashes.HashInfo("md5", "0" * 32))
    assert hash_of(state, file) == "0" * 32
    assert hash_of(VerifyingState(str(tmp_path), str(tmp_path / "site"), None), file) == md5(b"old").hexdigest()


def test_a_folder_has_no_hash_of_its_own(state: VerifyingState, tmp_path: Path) -> None:
    assert state.get(str(tmp_path), localfs) == (None, None)
