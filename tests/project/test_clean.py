"""Old results go, and only what was listed; what is locked, promoted or in use stays, however old."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows.dvc_stages.patches.atomic_files import processes_at_work
from flows.retention.dvc_cache import save_lock, saved_locks
from tasks.artifacts import write_text
from tests.support.tiny_project import ADDRESSES, dvc, environment, graft, ran, run


def another_run(root: Path, beta: float) -> None:
    """The chain with another param, of which DVC keeps the results beside the earlier ones."""
    graft(root, "stage", "-S", f"update.beta={beta}", *ADDRESSES)
    assert ran(root)
    save_lock(root)


def objects(root: Path) -> dict[str, int]:
    """Name → size of all that the cache holds, run-cache too."""
    cache = root / ".dvc" / "cache"
    return {p.relative_to(cache).as_posix(): p.stat().st_size for p in cache.rglob("*") if p.is_file()}


def commit(root: Path, *more: str) -> None:
    run(root, "git", "add", "-f", "dvc.lock")
    run(root, "git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "a run")
    for name in more:
        run(root, "git", "tag", name)


def weights(root: Path) -> bytes:
    return (root / "run" / "policy" / "weights.bin").read_bytes()


def restore(root: Path, lock: Path) -> None:
    shutil.copyfile(lock, root / "dvc.lock")
    dvc(root, "checkout", "-q")


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


@pytest.mark.slow
def test_what_a_queued_experiment_needs_stays(done: Path) -> None:
    """It lies in a stash, which no branch names: what its commit has locked is there when its turn comes."""
    for setting in (("user.name", "t"), ("user.email", "t@t")):
        run(done, "git", "config", *setting)
    commit(done)
    queued = weights(done)
    dvc(done, "exp", "run", "-q", "--queue", "-S", "evaluation.ks=[1,2]")
    run(done, "git", "update-ref", "-d", "HEAD")  # the branch of that commit is gone, as after a rebase
    for beta in (0.1, 0.2):
        another_run(done, beta)
    graft(done, "clean", "--keep", "1", "--yes")
    restore(done, lock_of_stash(done))
    assert weights(done) == queued


def lock_of_stash(root: Path) -> Path:
    """The dvc.lock that a queued experiment starts from."""
    lock = root.parent / "queued.lock"
    lock.write_text(run(root, "git", "show", "refs/exps/celery/stash:dvc.lock").stdout)
    return lock


@pytest.mark.slow
def test_what_git_locks_stays_however_old(done: Path) -> None:
    policies = [weights(done)]
    commit(done, "first")
    run(done, "git", "checkout", "-q", "-b", "side")
    another_run(done, 0.1)
    commit(done)
    policies.append(weights(done))
    run(done, "git", "checkout", "-q", "-")
    for beta in (0.2, 0.3):
        another_run(done, beta)
    graft(done, "clean", "--keep", "1", "--yes")
    for name, policy in (("first", policies[0]), ("side", policies[1])):
        run(done, "git", "checkout", "-q", "-f", name)
        dvc(done, "checkout", "-q")
        assert weights(done) == policy


def test_a_cache_that_others_may_share_is_left_alone(done: Path, tmp_path: Path) -> None:
    dvc(done, "cache", "dir", str(tmp_path / "shared"))
    graft(done, "stage", "-S", "update.beta=0.1", "update@1")
    before = sorted((tmp_path / "shared").rglob("*"))
    told = graft(done, "clean", "--keep", "1", "--yes").stdout
    assert "is outside of this project and may be others', too: see dvc gc" in told
    assert sorted((tmp_path / "shared").rglob("*")) == before


def test_it_waits_for_nobody_and_disturbs_nobody(done: Path) -> None:
    before = objects(done)
    (done / ".graft").mkdir(exist_ok=True)
    with (done / ".graft" / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        told = graft(done, "clean", "--keep", "1", "--yes", code=2).stderr
    assert "at work here" in told
    assert told.count("\n") == 1
    assert objects(done) == before


@pytest.mark.slow
def test_nothing_goes_while_dvc_repro_is_at_work(done: Path) -> None:
    before = objects(done)
    command = [str(Path(sys.executable).with_name("dvc")), "repro", "-q", "-f", "-s", "problems"]
    with subprocess.Popen(command, cwd=done, env=environment(TINY_HANG="problems"), start_new_session=True) as process:
        try:
            while ran(done) != ["problems"]:
                assert process.poll() is None
                time.sleep(0.1)
            told = graft(done, "clean", "--keep", "1", "--yes", code=2).stderr
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert "dvc is at work here (process " in told
    assert told.count("\n") == 1
    assert objects(done) == before
    graft(done, "clean", "--keep", "1")  # who was killed holds nobody up


@pytest.mark.parametrize("left", [b"", b'{"write": {"run/pol', b"[]", b'{"read": {"a": 1}}', b"\xff"])
def test_a_torn_list_of_who_reads_and_writes_is_of_nobody(tmp_path: Path, left: bytes) -> None:
    """DVC writes it in place: killed meanwhile it leaves half of it. A whole one is believed."""
    torn, whole = tmp_path / "rwlock", '{"write": {"run/a": {"pid": 7, "cmd": "dvc repro"}}}'
    torn.write_text(whole)
    assert processes_at_work(tmp_path) == {7}
    torn.write_bytes(left)
    assert processes_at_work(tmp_path) == set()
    assert not torn.exists()


@pytest.mark.slow
def test_what_killed_writers_left_goes_and_what_is_still_of_use_does_not(done: Path) -> None:
    leave = [
        "run/rounds/1/.policy.abcd1234/half",
        "run/.x.json.abcd1234",
        ".champion.abcd1234/old",
        ".graft/.a.abcd1234",
    ]
    leave += [".graft/journal/search@1/left"]
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
