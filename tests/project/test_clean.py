"""Old results go, and only what was listed; what is locked, promoted or in use stays, however old."""

import re
import shutil
from pathlib import Path

import pytest

from flows.retention.dvc_cache import save_lock, saved_locks
from tasks.artifacts import write_text
from tests.support.tiny_project import ADDRESSES, dvc, graft, ran


def another_run(root: Path, beta: float) -> None:
    """The chain with another param, of which DVC keeps the results beside the earlier ones."""
    graft(root, "stage", "-S", f"update.beta={beta}", *ADDRESSES)
    assert ran(root)
    save_lock(root)


def objects(root: Path) -> dict[str, int]:
    """Name → size of all that the cache holds, run-cache too."""
    cache = root / ".dvc" / "cache"
    return {p.relative_to(cache).as_posix(): p.stat().st_size for p in cache.rglob("*") if p.is_file()}


def weights(root: Path) -> bytes:
    return (root / "run" / "policy" / "weights.bin").read_bytes()


@pytest.mark.slow
def test_first_it_lists_then_it_removes_just_that_and_kept_runs_can_be_restored(done: Path) -> None:
    save_lock(done)
    policies = [weights(done)]
    for beta in (0.1, 0.2):
        another_run(done, beta)
        policies.append(weights(done))
    assert len(set(policies)) == len(saved_locks(done)) == 3
    before, first = objects(done), saved_locks(done)
    listed = graft(done, "clean", "--keep", "2").stdout
    assert "nothing was removed: graft clean --keep 2 --yes does it" in listed
    assert (objects(done), saved_locks(done)) == (before, first)

    told = graft(done, "clean", "--keep", "2", "--yes").stdout
    assert told.splitlines()[:-1] == listed.splitlines()[:-1]
    after = objects(done)
    assert after.items() < before.items()
    number = re.search(r"DVC cache: (\d+) to go", listed)
    assert number
    assert int(number[1]) == len(before) - len(after) + 1  # and a lock
    assert saved_locks(done) == first[1:]

    dvc(done, "repro", "-q")  # all is done still
    assert ran(done) == []
    shutil.copyfile(first[1], done / "dvc.lock")
    dvc(done, "checkout", "-q")
    assert weights(done) == policies[1]
    graft(done, "stage", "-S", "update.beta=0.1", *ADDRESSES)  # the params set back: DVC keeps no verdict of promote
    assert set(ran(done)) <= {"promote"}
    assert weights(done) == policies[1]
    graft(done, "stage", "-S", "update.beta=0.01", *ADDRESSES)  # of one that went it is computed, and as it was
    assert "update@1" in ran(done)
    assert weights(done) == policies[0]


def test_a_cache_that_others_may_share_is_left_alone(done: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shutil.copytree(done / ".dvc" / "cache", shared)
    write_text(done / ".dvc" / "config.local", f"[cache]\n    dir = {shared}\n")
    before = sorted(shared.rglob("*"))
    told = graft(done, "clean", "--keep", "1", "--yes").stdout
    assert "is outside of this project and may be others', too: see dvc gc" in told
    assert sorted(shared.rglob("*")) == before


@pytest.mark.slow
def test_what_killed_writers_left_goes_and_what_is_still_of_use_does_not(done: Path) -> None:
    leave = ["run/rounds/1/.policy.abcd1234/half", "run/.x.json.abcd1234", ".champion.abcd1234/old"]
    leave += [".graft/.a.abcd1234", ".graft/journal/search@1/left"]
    stay = [".graft/journal/search@2/useful", ".graft/replies/paid", "champion/champion.json", ".envrc.settings"]
    stay += ["run/.hidden", ".graft/notes"]
    for name in (*leave, *stay):
        write_text(done / name, "x")
    (done / "run" / "rounds" / "2" / "tree.svg").unlink()  # search@2 was interrupted
    listed = graft(done, "clean", "--keep", "1").stdout
    assert all((done / name).exists() for name in (*leave, *stay))
    assert ".graft/journal/search@2: search@2 goes on from it" in listed
    graft(done, "clean", "--keep", "1", "--yes")
    assert not [name for name in leave if (done / name).exists()]
    assert not [name for name in stay if not (done / name).exists()]
    graft(done, "clean", "--keep", "1", "--yes", "--replies")
    assert not (done / ".graft" / "replies").exists()
