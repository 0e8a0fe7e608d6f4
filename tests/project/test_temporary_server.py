"""Prefect's temporary server forgets nothing that it was told, however soon it ends."""

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


def rows(home: Path, program: str, query: str) -> list[Any]:
    """What is in the server's database after a program that started it."""
    ended = tiny_project.run(tiny_project.REPOSITORY, "python", "-c", SERVER + program, PREFECT_HOME=str(home))
    assert "Traceback" not in ended.stderr
    with closing(sqlite3.connect(home / "prefect.db")) as database:
        return database.execute(query).fetchall()


def test_each_task_of_a_run_that_ends_at_once_is_in_its_history(tmp_path: Path) -> None:
    found = rows(tmp_path, MANY_TASKS, "select state_type, count(*) from task_run group by 1")
    assert found == [("COMPLETED", TASKS)]
