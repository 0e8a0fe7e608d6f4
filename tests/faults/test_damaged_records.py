"""What DVC believes of earlier results: where it is damaged, nothing wrong is believed and no result is lost."""

import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.aftermath import Bytes, bytes_of, overwrite, punch_a_hole
from tests.support.tiers import nightly_but_first
from tests.support.tiny_project import ADDRESSES, graft, ran

pytestmark = pytest.mark.slow


def halved(text: bytes) -> bytes:
    return text[: text.index(b"md5: ", len(text) // 2) + 2]


def emptied(text: bytes) -> bytes:  # noqa: ARG001
    return b""


def garbage(text: bytes) -> bytes:
    return bytes(range(128, 256)) * (len(text) // 128)


def conflict(text: bytes) -> bytes:
    """As git leaves it where two branches have run different things."""
    lines = text.splitlines(keepends=True)
    return b"".join(
        [*lines[:6], b"<<<<<<< HEAD\n", *lines[6:9], b"=======\n", *lines[7:9], b">>>>>>> other\n", *lines[9:]]
    )


@pytest.mark.parametrize("harm", nightly_but_first([conflict, halved, emptied, garbage]))
def test_a_damaged_lock_is_named_and_costs_nothing(
    done: Path, harm: Callable[[bytes], bytes], undisturbed: Bytes
) -> None:
    lock = done / "dvc.lock"
    lock.write_bytes(harm(lock.read_bytes()))
    ran(done)
    told = graft(done, "stage", "problems", code=2).stderr
    assert re.fullmatch(
        r"graft: dvc\.lock: damaged \(.+\); git checkout dvc\.lock, or remove it: what is in the cache is not lost\n",
        told,
    )
    assert ran(done) == []
    lock.unlink()
    graft(done, "stage", "sources", *ADDRESSES)
    assert ran(done) == ["promote"]  # the others come from the run-cache
    assert bytes_of(done) == undisturbed


def wrong_digests(text: bytes) -> bytes:
    return re.sub(rb"md5: \w{8}", b"md5: 00000000", text)


@pytest.mark.parametrize("harm", nightly_but_first([wrong_digests, halved, emptied, garbage]))
def test_a_damaged_run_cache_is_not_believed(
    done: Path, harm: Callable[[bytes], bytes], ends_well: Callable[[Path], None]
) -> None:
    """All of its entries, and nothing else is left to go by."""
    for entry in (done / ".dvc" / "cache" / "runs").rglob("*"):
        if entry.is_file():
            entry.write_bytes(harm(entry.read_bytes()))
    (done / "dvc.lock").unlink()
    shutil.rmtree(done / "run")
    ends_well(done)
    assert ran(done) == ADDRESSES


def test_an_entry_that_was_about_to_be_written_stops_nothing(done: Path) -> None:
    """DVC makes its folder first, and there a full disk or a kill can come between."""
    for entry in (done / ".dvc" / "cache" / "runs").rglob("*"):
        if entry.is_file():
            entry.unlink()
    (done / "dvc.lock").unlink()
    graft(done, "stage", "problems", "coldstart")
    assert ran(done) == ["problems", "coldstart"]


@pytest.mark.parametrize("harm", nightly_but_first([punch_a_hole, overwrite]))
def test_a_damaged_memory_of_hashes_is_begun_anew(done: Path, tmp_path: Path, harm: Callable[[Path], None]) -> None:
    site = {"DVC_SITE_CACHE_DIR": str(tmp_path / "site")}
    graft(done, "stage", "problems", **site)
    databases = list((tmp_path / "site").rglob("cache.db"))
    assert len(databases) == 2
    for database in databases:
        harm(database)
    told = graft(done, "stage", *ADDRESSES, **site)
    assert told.stdout.count(" unchanged ") == len(ADDRESSES)
    for database in databases:
        with sqlite3.connect(database) as found:
            assert found.execute("PRAGMA quick_check").fetchall() == [("ok",)]
