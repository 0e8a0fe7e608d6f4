"""Law: whenever a run is killed, no earlier result is lost and the next run goes on; the end is as if nothing was.

The processes of an update: tests/integration/update/test_update_in_processes.py; those of reward terms of one's own:
tests/unit/reward/test_user_terms.py; in mid-search and in mid-update: test_shard_runners.py and test_killed_update.py.
"""

import hashlib
import os
import random
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests.support import tiny_project
from tests.support.aftermath import Bytes, bytes_of, left_after_a_while, processes
from tests.support.params_file import override
from tests.support.tiers import nightly_but_first
from tests.support.tiny_project import ADDRESSES, begin, graft, ran

pytestmark = pytest.mark.slow


def stages_of(lock: Path) -> dict[str, Any]:
    return yaml.safe_load(lock.read_text())["stages"] if lock.exists() else {}


def whole(root: Path, stage: dict[str, Any]) -> bool:
    """Whether the cache holds all that the lock says of a stage's outputs."""
    for out in stage["outs"]:
        name = out["md5"]
        copy = root / ".dvc" / "cache" / "files" / "md5" / name[:2] / name[2:]
        if hashlib.md5(copy.read_bytes()).hexdigest() != name.removesuffix(".dir"):
            return False
    return True


@pytest.mark.parametrize("kills", nightly_but_first([8, 20]))
def test_killed_at_random_moments(fresh: Path, undisturbed: Bytes, prefect_url: str, kills: int) -> None:
    """One after the other on the way of one run: during the start, in each stage, while results are put away."""
    rng = random.Random(7)
    right = yaml.safe_load(undisturbed.lock)["stages"]
    moments = sorted(rng.randrange(-3, len(ADDRESSES)) for _ in range(kills))
    kept: set[str] = set()
    for number, moment in enumerate(moments):
        process = tiny_project.start(fresh, "retrain", PREFECT_API_URL=prefect_url, TINY_MARK=str(fresh))
        if moment >= 0:
            wait_until_at(fresh, moment, process)
        time.sleep(rng.uniform(0, 0.6 if moment >= 0 else 3))
        if process.poll() is None:  # else it was at its last stage and has ended on its own
            os.killpg(process.pid, signal.SIGKILL) if number % 2 else process.kill()
        process.communicate()
        known = stages_of(fresh / "dvc.lock")
        assert kept <= known.keys()
        for address, stage in known.items():
            assert stage == right[address]
            assert whole(fresh, stage)
        kept = set(known)
    assert left_after_a_while(str(fresh)) == []
    ended = graft(fresh, "retrain", PREFECT_API_URL=prefect_url)
    printed = dict(line.split()[:2] for line in ended.stdout.splitlines()[: len(ADDRESSES)])
    assert "ran" not in {printed[address] for address in kept - {"sources", "promote"}}
    assert ended.stderr == ""
    assert bytes_of(fresh) == undisturbed


def wait_until_at(root: Path, moment: int, process: "subprocess.Popen[str]") -> None:
    """Until it computes the so-many-th stage, or one after that; or has ended."""
    note = root / ".graft" / "ran.log"
    later = set(ADDRESSES[moment:])
    note.unlink(missing_ok=True)
    while process.poll() is None and not (note.exists() and later & set(note.read_text().split())):
        time.sleep(0.01)


def test_killed_while_dvc_lock_is_written(done: Path, ends_well: Callable[[Path], None]) -> None:
    """It takes a while to write, of which DVC itself spends most with an emptied file."""
    rng = random.Random(0)
    before = (done / "dvc.lock").read_bytes()
    for _ in range(3):
        inode = (done / "dvc.lock").stat().st_ino
        process = tiny_project.start(done, "stage", "--force", *ADDRESSES, TINY_SECONDS="0")
        while process.poll() is None and (done / "dvc.lock").stat().st_ino == inode:
            pass
        time.sleep(rng.uniform(0, 0.5))
        process.kill()
        process.communicate()
        assert (done / "dvc.lock").read_bytes() == before
    ends_well(done)


def by_kill(process: "subprocess.Popen[str]", _: Path) -> int:
    process.terminate()
    return 143


def by_a_service(_: object, root: Path) -> int:
    """All that a unit has started is told."""
    for one in processes(str(root)):
        one.terminate()
    return 143


def by_a_terminal(process: "subprocess.Popen[str]", _: Path) -> int:
    """Ctrl-C, which goes to a process group."""
    os.killpg(process.pid, signal.SIGINT)
    return 130


@pytest.mark.parametrize("stopped", nightly_but_first([by_a_terminal, by_a_service, by_kill]))
def test_a_signal_is_a_clean_stop(fresh: Path, stopped: Callable[..., int], ends_well: Callable[[Path], None]) -> None:
    override(fresh / "params.yaml", ["machine.tracking.uri=sqlite:///mlflow.db"])
    process = begin(fresh, "reward@1", "retrain", TINY_MARK=str(fresh))
    code = stopped(process, fresh)
    _, told = process.communicate(timeout=200)
    assert process.returncode == code
    assert told == "interrupted in reward@1; the same command goes on there\n"
    assert left_after_a_while(str(fresh)) == []
    with sqlite3.connect(fresh / ".graft" / "prefect" / "prefect.db") as database:
        assert database.execute("select state_type from flow_run").fetchall() == [("CRASHED",)]
    with sqlite3.connect(fresh / "mlflow.db") as database:
        assert set(database.execute("select status from runs").fetchall()) <= {("FAILED",), ("FINISHED",)}
    assert not (fresh / "run" / "rounds" / "1" / "rewards.jsonl").exists()
    assert ran(fresh) == ADDRESSES[: ADDRESSES.index("reward@1") + 1]
    ends_well(fresh)
    assert ran(fresh) == ADDRESSES[ADDRESSES.index("reward@1") :]


@pytest.mark.parametrize("number", nightly_but_first([signal.SIGTERM, signal.SIGINT, signal.SIGHUP]))
def test_six_signals_in_a_second_at_any_moment_are_one(
    fresh: Path, number: signal.Signals, ends_well: Callable[[Path], None]
) -> None:
    """At the start too, where Prefect and pydantic turn what a signal raises into errors of their own."""
    rng = random.Random(number)
    for latest in (1, 3, 5):
        process = tiny_project.start(fresh, "retrain", TINY_HANG="promote")
        while not (lock := fresh / ".graft" / "lock").exists() or not lock.read_text():
            time.sleep(0.01)  # until Python has started
        time.sleep(rng.uniform(0, latest))
        for _ in range(6):
            process.send_signal(number)
            time.sleep(1 / 6)
        _, told = process.communicate(timeout=100)
        assert process.returncode == 128 + number
        assert told == "" or re.fullmatch(r"interrupted .*; the same command goes on there\n", told)
    ends_well(fresh)


def test_a_run_whose_mlflow_process_is_killed_says_what_is_missing(
    fresh: Path, undisturbed: Bytes, prefect_url: str
) -> None:
    override(fresh / "params.yaml", ["machine.tracking.uri=sqlite:///mlflow.db"])
    process = begin(fresh, "reward@1", "retrain", PREFECT_API_URL=prefect_url, TINY_SECONDS="3")
    (worker,) = [one for one in psutil.Process(process.pid).children() if "tasks.tracking.worker" in one.cmdline()]
    worker.kill()
    _, told = process.communicate(timeout=400)
    assert process.returncode == 0
    line = told.splitlines()[-1]  # the one before says that the tiny stages measure no influence
    assert line.startswith("warning: MLflow (sqlite:///mlflow.db): its process ended with -9")
    assert bytes_of(fresh) == undisturbed
