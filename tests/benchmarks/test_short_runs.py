"""Benchmarks at night: short runs draw the problems that those of a run do, nights have their alerts, memory.

The memory of stages that stream does not grow with the problems.
"""

import shutil
from pathlib import Path

import pytest

from benchmarks.nights.clock import Clock
from benchmarks.nights.month import ZONE, Month
from benchmarks.nights.plan import NIGHTS
from benchmarks.streaming import measure
from benchmarks.support.short_runs import draw_problems, read_problems
from tasks.artifacts import read_jsonl
from tasks.layout import Layout
from tasks.params.file import load_params
from tasks.records import AskedProblem
from tasks.search.task import run
from tasks.select.validation_rollout import sample_validation, write_validation
from tasks.trajectories import Trajectory
from tests.support import real_project
from tests.support.params_file import override
from tests.support.webhooks import webhook

pytestmark = pytest.mark.nightly


def test_a_short_run_draws_the_problems_that_the_stages_do(tmp_path: Path) -> None:
    layout = Layout(real_project.make(tmp_path))
    override(tmp_path / "params.yaml", ["search.problems=4"])
    params = load_params(tmp_path / "params.yaml")
    train, validation = read_problems(tmp_path, params)
    assert len(train) > 4
    assert len(validation) > params.influence.n
    for round in (1, 2):
        run(layout, params, round)
        write_validation(layout, round, sample_validation(layout, params, round, 0, params.influence.n))
        recorded = [layout.workflows(round) / "problems.jsonl", layout.trajectories(round, "validation")]
        asked = [*read_jsonl(recorded[0], AskedProblem), *read_jsonl(recorded[1], Trajectory)]
        drawn = draw_problems(params, train, validation, round)
        assert [(split, problem.problem_id) for split, problem in drawn] == [(a.split, a.problem_id) for a in asked]
        layout.policy(round).symlink_to(layout.policy(0))


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler here")
def test_a_promotion_and_a_run_that_is_killed_have_their_alerts(tmp_path: Path) -> None:
    clock = Clock(tmp_path, ZONE)
    with webhook(now=clock.now) as alerts:
        figures = Month(tmp_path, None, clock, alerts).run(dict(enumerate(NIGHTS[number] for number in (5, 8, 9))))
    assert figures.right == 3, figures.nights
    assert (figures.double, figures.alerts_missed, figures.alerts_false, figures.lost) == (0, 0, 0, 0)
    assert 0 <= figures.alert_seconds < 60


LIMIT = 500  # MiB
ROOM = 20  # MiB by which two peaks may differ: what the allocator keeps


def test_four_times_the_problems_need_no_more_memory() -> None:
    few, many = measure(6_000), measure(24_000)  # three shards and twelve
    for one, other in zip(few, many, strict=True):
        assert other.peak < min(LIMIT, one.peak + ROOM), other.stage
    assert [row.stage for row in many] == ["collect", "reward", "select"]
