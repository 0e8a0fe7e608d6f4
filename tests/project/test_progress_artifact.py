"""A stage that takes long has a bar in Prefect; one that does not has none."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support import tiny_project

PROGRAM = """
import os
import time
from flows.process.settings import set_environment
set_environment()
from flows.prefect_runs.temporary_server import TemporaryServer
server = TemporaryServer()
os.environ["PREFECT_API_URL"] = server.url()
from prefect import flow, task
from flows.prefect_runs import task_run_logs
from tasks.core.progress import show_progress
task_run_logs.SECONDS = 0.2

@task(persist_result=False)
def stage(steps):
    with task_run_logs.show_in_prefect(), show_progress("update", 10, "steps") as advance:
        for _ in range(steps):
            advance()
            time.sleep(0.3)
        advance(10 - steps)
    if steps:
        time.sleep(1)

@flow(persist_result=False)
def run():
    stage(4)
    stage(0)

run()
"""


@pytest.mark.slow
def test_a_long_stage_has_one_bar_that_ends_full(tmp_path: Path) -> None:
    ended = tiny_project.run(tiny_project.REPOSITORY, "python", "-c", PROGRAM, PREFECT_HOME=str(tmp_path))
    assert "Traceback" not in ended.stderr
    with closing(sqlite3.connect(tmp_path / "prefect.db")) as database:
        bars = database.execute(
            "select key, data, artifact.description, task_run.name from artifact "
            "join task_run on task_run.id = artifact.task_run_id where type = 'progress'"
        ).fetchall()
    ((key, data, line, task),) = bars
    assert (key, float(data), line) == ("progress", 100.0, f"{task}: update: 10 of 10 steps")
