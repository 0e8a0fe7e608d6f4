"""Law: a stage that fails, is interrupted or is edited while it runs leaves the earlier results as they were.

One with a time limit writes what it would without, and at the limit all of its processes end.
"""

import os
import shutil
import signal
from pathlib import Path

import pytest

from flows.stages.dvc_yaml import parse
from tests.support.params_file import override
from tests.support.processes import is_alive
from tests.support.tiny_project import begin, dvc, graft, ran, state_of


def test_a_failed_stage_is_told_in_one_line(done: Path) -> None:
    before = state_of(done)
    left = done / "run/rounds/2/.policy.ab12_9zz"  # by a kill in the middle of a write
    left.mkdir()
    told = graft(done, "stage", "-S", "update.beta=0.5", "update@2", "evaluate@after", code=2, TINY_FAIL="update@2")
    assert not left.exists()
    assert told.stderr == "graft: update@2: told to fail; unset TINY_FAIL\n"
    assert ran(done) == ["update@2"]
    assert state_of(done) == before  # the stage had removed and half-written its outputs


def test_a_failed_stage_that_never_ran_leaves_nothing(done: Path) -> None:
    for name in ("run", ".dvc/cache"):
        shutil.rmtree(done / name)
    (done / "dvc.lock").unlink()
    graft(done, "stage", "problems", code=2, TINY_FAIL="problems")
    assert not list((done / "run").rglob("*.jsonl"))
    assert "problems" not in parse(done / "dvc.lock")["stages"]


def test_dvc_gives_the_same_line_and_fails_too(done: Path) -> None:
    override(done / "params.yaml", ["update.beta=0.5"])
    lock = (done / "dvc.lock").read_bytes()
    told = dvc(done, "repro", "--single-item", "update@2", code=255, TINY_FAIL="update@2")
    assert "graft: update@2: told to fail; unset TINY_FAIL\n" in told.stderr
    assert "Traceback" not in told.stderr
    assert (done / "dvc.lock").read_bytes() == lock


def test_a_fault_of_graft_is_told_in_one_line_too(done: Path) -> None:
    told = graft(done, "stage", "--force", "promote", code=1, TINY_BUG="promote")
    assert told.stderr == (
        "graft: a fault in Graft, ZeroDivisionError: told to break; run it again with --debug to see where\n"
    )


@pytest.mark.parametrize("edited", ["tasks/reward/builtin_terms.py", "run/rounds/2/trajectories.jsonl"])
def test_what_changes_while_a_stage_runs_is_not_recorded(done: Path, edited: str) -> None:
    before = state_of(done)
    told = graft(done, "stage", "--force", "reward@2", code=2, TINY_EDIT=edited)
    assert told.stderr.startswith(f"graft: {edited}: changed while reward@2 was running")
    assert {**state_of(done), edited: b""} == {**before, edited: b""}


def test_a_source_that_was_imported_before_its_edit_is_not_recorded(done: Path) -> None:
    """Python keeps the old source: what reward@1 imported, reward@2 would use, whatever the file says by then."""
    told = graft(done, "stage", "--force", "search@2", "reward@2", code=2, TINY_EDIT="tasks/reward/builtin_terms.py")
    assert "tasks/reward/builtin_terms.py: changed since this command began" in told.stderr
    assert ran(done) == ["search@2"]


def test_ctrl_c_leaves_the_earlier_results(done: Path) -> None:
    before = state_of(done)
    process = begin(done, "update@2", "stage", "--force", "update@2")
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in told
    assert state_of(done) == before


@pytest.mark.slow
def test_graft_and_dvc_do_not_collide(done: Path) -> None:
    """While a stage runs, others may go on, but nobody can touch what it reads and writes."""
    process = begin(done, "update@2", "stage", "--force", "update@2")
    ran(done)
    graft(done, "stage", "--force", "evaluate@before")
    for told in (
        dvc(done, "repro", "--single-item", "--force", "update@2", code=255),
        graft(done, "stage", "--force", "update@2", code=2),
        graft(done, "stage", "--force", "select@2", code=2),
    ):
        assert "is busy" in told.stderr
        assert "Traceback" not in told.stderr
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert ran(done) == ["evaluate@before"]


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
    limit = ("-S", "machine.schedule.seconds={update: 8}")
    told = graft(done, "stage", "--force", *limit, "update@2", code=2, TINY_CHILDREN="update@2")
    assert told.stderr == (
        "graft: update@2: not done after the 8 s that machine.schedule.seconds gives update, and killed; give it more "
        "with -S 'machine.schedule.seconds={update: 16}', or less to do\n"
    )
    assert state_of(done) == before
    pids = [int(pid) for pid in (done / "children").read_text().split()]
    assert len(pids) == 3
    assert not any(is_alive(pid) for pid in pids)


def test_a_limit_of_no_stage_is_named(done: Path) -> None:
    told = graft(done, "stage", "-S", "machine.schedule.seconds={updates: 3}", "update@2", code=2)
    assert told.stderr.startswith(
        "graft: machine.schedule.seconds: no stage 'updates'; name one of problems, coldstart, "
    )
