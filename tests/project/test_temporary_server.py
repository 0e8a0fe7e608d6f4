"""A server of our own forgets nothing that it was told, however soon it is to end."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support import tiny_project

TASKS = 120
PROGRAM = f"""
import os
from flows.process.settings import set_environment
set_environment()
from flows.prefect_runs.temporary_server import TemporaryServer
server = TemporaryServer()
os.environ["PREFECT_API_URL"] = server.url()
from prefect import flow, task

@task(persist_result=False)
def nothing():
    pass

@flow(persist_result=False)
def many():
    for _ in range({TASKS}):
        nothing()

many()
"""


@pytest.mark.slow
def test_each_task_of_a_run_that_ends_at_once_is_in_its_history(tmp_path: Path) -> None:
    ended = tiny_project.run(tiny_project.REPOSITORY, "python", "-c", PROGRAM, PREFECT_HOME=str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    with closing(sqlite3.connect(tmp_path / "prefect.db")) as database:
        assert database.execute("select state_type, count(*) from task_run group by 1").fetchall() == [
            ("COMPLETED", TASKS)
        ]
