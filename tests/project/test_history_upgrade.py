"""Laws: the records that an older Prefect or MLflow wrote are all there after an upgrade, and one line says so.

And Prefect's temporary server forgets nothing that it has received, however soon it ends.

The older tables are made by the migrations that the libraries ship.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from flows.prefect_runs.temporary_server import TemporaryServer
from tasks.core.sqlite import report_upgrade, schema_revision
from tasks.errors import GraftError
from tasks.tracking.store import store_lock
from tests.support import tiny_project

MLFLOW_3_16, PREFECT_3_8 = "b7e2c1a4d9f3", "a3b9c7d2e5f1"
"""The revisions of the tables of MLflow 3.16.1 and Prefect 3.8.8."""

MIGRATE = """
import sys
from functools import partial
import anyio
from prefect.server.database.alembic_commands import alembic_upgrade
anyio.run(anyio.to_thread.run_sync, partial(alembic_upgrade, revision=sys.argv[1]))
"""

pytestmark = pytest.mark.slow

UPGRADED = "upgraded to the installed version, with all that it holds; an older version cannot read it\n"


def change(database: Path, statement: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(statement)


def names(database: Path, table: str) -> list[str]:
    with closing(sqlite3.connect(database)) as connection:
        return [name for (name,) in connection.execute(f"SELECT name FROM {table} ORDER BY name")]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Of MLflow 3.16.1, with an experiment."""
    from alembic import command
    from mlflow.store.db.utils import _get_alembic_config
    from mlflow.store.tracking.dbmodels.initial_models import Base
    from sqlalchemy import create_engine

    database = tmp_path / "mlflow.db"
    engine = create_engine(f"sqlite:///{database}")
    Base.metadata.create_all(engine)
    config = _get_alembic_config(f"sqlite:///{database}")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, MLFLOW_3_16)
    engine.dispose()
    change(database, "INSERT INTO experiments (experiment_id, name, lifecycle_stage) VALUES (7, 'old', 'active')")
    return database


def test_a_store_of_an_older_mlflow_is_upgraded_with_what_it_holds(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from mlflow import MlflowClient

    before = schema_revision(store)
    assert before == MLFLOW_3_16
    for _ in range(2):
        with store_lock(f"sqlite:///{store}"):
            experiments = MlflowClient(f"sqlite:///{store}").search_experiments()
        assert "old" in {experiment.name for experiment in experiments}
    assert not store.with_name("mlflow.db.upgrade").exists()
    report_upgrade(store, before)
    report_upgrade(store, schema_revision(store))
    assert capsys.readouterr().err == f"{store}: {UPGRADED}"


def test_a_store_that_cannot_be_upgraded_stays_as_it_is(store: Path) -> None:
    change(store, "UPDATE alembic_version SET version_num = 'of a newer one'")
    before = store.read_bytes()
    line = r"mlflow\.db: its tables .*of a newer one.*; install that version, or move"
    with pytest.raises(GraftError, match=line), store_lock(f"sqlite:///{store}"):
        pass
    assert store.read_bytes() == before


def test_a_temporary_server_upgrades_the_history_of_an_older_prefect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = tmp_path / "prefect.db"
    tiny_project.run(tmp_path, "python", "-c", MIGRATE, PREFECT_3_8, PREFECT_HOME=str(tmp_path))
    assert schema_revision(database) == PREFECT_3_8
    change(database, "INSERT INTO flow (id, name, tags, labels) VALUES ('0', 'old', '[]', '{}')")
    for _ in range(2):
        with TemporaryServer(home=tmp_path):
            pass
    assert names(database, "flow") == ["old"]
    assert capsys.readouterr().err == f"{database}: {UPGRADED}"


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
