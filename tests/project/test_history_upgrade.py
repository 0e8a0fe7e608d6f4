"""Laws: the records that an older Prefect or MLflow wrote are all there after an upgrade, and one line says so.

Here the older tables are made by the migrations that the libraries ship; at night by the older versions themselves.
"""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

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


OLD_PREFECT = """
from prefect import flow, task
@task
def nothing(): pass
@flow
def old():
    for _ in range(5): nothing()
    import time; time.sleep(3)  # its server loses what it has not written when the flow ends
old()
"""

OLD_MLFLOW = """
import sys
import mlflow
mlflow.set_tracking_uri(sys.argv[1])
mlflow.set_experiment("old")
with mlflow.start_run(run_name="old"):
    mlflow.log_metric("pass_at_1", 0.5)
"""


def python_with(folder: Path, *packages: str) -> str:
    """The Python of a new environment with these packages, from the package index."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    ended = subprocess.run([python, "-m", "pip", "install", "-q", *packages], capture_output=True, text=True)
    if ended.returncode:
        pytest.skip(f"the package index does not have {packages[0]}: {ended.stderr[-300:]}")
    return python


@pytest.mark.nightly
@pytest.mark.parametrize("server", [False, True], ids=["sqlite", "postgres"])
@pytest.mark.parametrize("version", ["3.10.0", "3.16.1"])
def test_what_an_older_mlflow_recorded_is_there_after_the_upgrade(
    tmp_path: Path, version: str, server: bool, request: pytest.FixtureRequest
) -> None:
    from mlflow import MlflowClient

    uri = f"sqlite:///{tmp_path}/mlflow.db"
    if server:
        uri = f"postgresql://{request.getfixturevalue('database').make(f'mlflow {version}')}"
    python = python_with(tmp_path / "old", f"mlflow=={version}", "sqlalchemy<2.1", "psycopg2-binary")
    tiny_project.run(tmp_path, python, "-c", OLD_MLFLOW, uri)
    if server:
        tiny_project.run(tmp_path, "mlflow", "db", "upgrade", uri)
    with store_lock(uri):
        client = MlflowClient(uri)
        (run,) = client.search_runs([client.get_experiment_by_name("old").experiment_id])
    assert (run.info.run_name, run.data.metrics) == ("old", {"pass_at_1": 0.5})


@pytest.mark.nightly
@pytest.mark.parametrize("server", [False, True], ids=["sqlite", "postgres"])
def test_what_prefect_3_8_recorded_is_there_after_the_upgrade(
    tmp_path: Path, server: bool, request: pytest.FixtureRequest
) -> None:
    settings = {"PREFECT_HOME": str(tmp_path), "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120"}
    if server:
        address = request.getfixturevalue("database").make("prefect 3.8.8")
        settings["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = f"postgresql+asyncpg://{address}"
    python = python_with(tmp_path / "old", "prefect==3.8.8", "fastapi<0.151", "sqlalchemy<2.1")
    tiny_project.run(tmp_path, python, "-c", OLD_PREFECT, **settings)
    query = "SELECT state_type, count(*) FROM task_run GROUP BY 1"
    if server:
        tiny_project.run(tmp_path, "prefect", "server", "database", "upgrade", "-y", **settings)
        assert request.getfixturevalue("database").sql(query, "prefect 3.8.8") == "COMPLETED|5"
        return
    with TemporaryServer(home=tmp_path), closing(sqlite3.connect(tmp_path / "prefect.db")) as connection:
        assert connection.execute(query).fetchall() == [("COMPLETED", 5)]
