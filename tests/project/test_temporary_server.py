"""Prefect's temporary server forgets nothing that it was told, however soon it ends; a long stage has a bar there."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support import tiny_project

pytestmark = pytest.mark.slow

TASKS = 120
SERVER = """
import os
import time
from flows.process.settings import set_environment
set_environment()
from flows.prefect_runs.temporary_server import TemporaryServer
server = TemporaryServer()
os.environ["PREFECT_API_URL"] = server.url()
from prefect import flow, task
"""
MANY_TASKS = f"""
@task(persist_result=False)
def nothing():
    pass

@flow(persist_result=False)
def many():
    for _ in range({TASKS}):
        nothing()

many()
"""
LONG_STAGE = """
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


def rows(home: Path, program: str, query: str) -> list[Any]:
    """What is in the server's database after a program that started it."""
    ended = tiny_project.run(tiny_project.REPOSITORY, "python", "-c", SERVER + program, PREFECT_HOME=str(home))
    assert "Traceback" not in ended.stderr
    with closing(sqlite3.connect(home / "prefect.db")) as database:
        return database.execute(query).fetchall()


def test_each_task_of_a_run_that_ends_at_once_is_in_its_history(tmp_path: Path) -> None:
    found = rows(tmp_path, MANY_TASKS, "select state_type, count(*) from task_run group by 1")
    assert found == [("COMPLETED", TASKS)]


def test_a_long_stage_has_one_bar_that_ends_full_and_a_short_one_none(tmp_path: Path) -> None:
    query = "select key, data, artifact.description, task_run.name from artifact "
    query += "join task_run on task_run.id = artifact.task_run_id where type = 'progress'"
    ((key, data, line, task),) = rows(tmp_path, LONG_STAGE, query)
    assert (key, float(data), line) == ("progress", 100.0, f"{task}: update: 10 of 10 steps")
