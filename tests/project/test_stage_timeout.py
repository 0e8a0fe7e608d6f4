"""Law: a stage with a time limit writes what it would without, and at the limit all of its processes end."""

from pathlib import Path

import pytest

from tests.support.processes import is_alive
from tests.support.tiny_project import graft, ran, state_of


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
