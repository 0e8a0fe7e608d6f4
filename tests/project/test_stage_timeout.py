"""Law: a stage with a time limit writes what it would without, and at the limit all of its processes end."""

import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.processes import is_alive
from tests.support.tiers import nightly_but_first
from tests.support.tiny_project import graft, ran, start, state_of

LIMIT = ["-S", "machine.schedule.seconds={update: 200}"]


@pytest.mark.slow
def test_a_limited_stage_writes_the_same_bytes(by_graft: Path, done: Path) -> None:
    told = graft(
        done, "stage", "--force", "-S", "machine.schedule.seconds={update: 120, promote: 120}", "update@1", "promote"
    )
    assert [line.split()[1] for line in told.stdout.splitlines()[-2:]] == ["ran", "ran"]
    assert ran(done) == ["update@1", "promote"]
    assert state_of(done) == state_of(by_graft)


@pytest.mark.slow
def test_at_the_limit_the_stage_is_killed_with_all_its_children(done: Path) -> None:
    before = state_of(done)
    told = graft(
        done,
        "stage",
        "--force",
        "-S",
        "machine.schedule.seconds={update: 8}",
        "update@2",
        code=2,
        TINY_CHILDREN="update@2",
    )
    assert told.stderr == (
        "graft: update@2: not done after the 8 s that machine.schedule.seconds gives update, and killed; give it more "
        "with -S 'machine.schedule.seconds={update: 16}', or less to do\n"
    )
    assert state_of(done) == before
    pids = [int(pid) for pid in (done / "children").read_text().split()]
    assert len(pids) == 3
    assert not any(is_alive(pid) for pid in pids)


@pytest.mark.slow
@pytest.mark.parametrize("how", nightly_but_first([signal.SIGKILL, signal.SIGINT, signal.SIGTERM]))
def test_a_limited_stage_ends_with_the_process_that_waits_for_it(done: Path, how: signal.Signals) -> None:
    process = start(done, "stage", "--force", *LIMIT, "update@2", TINY_CHILDREN="update@2")
    deadline = time.monotonic() + 120
    while not (done / "children").exists() or len((done / "children").read_text().split()) < 3:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(how)
    process.wait(60)
    stage, child, stray = (int(pid) for pid in (done / "children").read_text().split())
    try:
        while is_alive(stage) or is_alive(child):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        if is_alive(stray):  # of a session of its own: only who is asked to end can look for it
            os.kill(stray, signal.SIGKILL)
            assert how != signal.SIGINT


@pytest.mark.slow
def test_what_a_limited_stage_raises_is_raised_here(done: Path) -> None:
    told = graft(done, "stage", "--force", *LIMIT, "update@2", code=2, TINY_FAIL="update@2")
    assert told.stderr == "graft: update@2: told to fail; unset TINY_FAIL\n"
    told = graft(done, "stage", "--force", *LIMIT, "update@2", code=1, TINY_BUG="update@2")
    assert told.stderr == (
        "graft: a fault in Graft, ZeroDivisionError: told to break; run it again with --debug to see where\n"
    )
    told = graft(done, "stage", "--force", "--debug", *LIMIT, "update@2", code=1, TINY_BUG="update@2")
    assert "raise ZeroDivisionError(" in told.stderr


@pytest.mark.slow
def test_what_a_limited_stage_prints_is_in_the_log_of_its_task(done: Path) -> None:
    limit = ("-S", "machine.schedule.seconds={promote: 120}", "-S", "evaluation.temperature=0.5")
    told = graft(done, "retrain", *limit, TINY_WARN="promote")
    assert told.stderr == "the stage says so\n"
    query = "select task_run.name from log join task_run on task_run.id = task_run_id where message = ?"
    with closing(sqlite3.connect(done / ".graft" / "prefect" / "prefect.db")) as database:
        assert database.execute(query, ("the stage says so",)).fetchall() == [("promote",)]


def test_a_limit_of_no_stage_is_named(done: Path) -> None:
    told = graft(done, "stage", "-S", "machine.schedule.seconds={updates: 3}", "update@2", code=2)
    assert told.stderr.startswith(
        "graft: machine.schedule.seconds: no stage 'updates'; name one of problems, coldstart, "
    )
