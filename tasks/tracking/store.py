"""The store of MLflow: its SQLite file, that file's creation or upgrade by one process at a time, and the end of killed
runs in it."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tasks.core.child_process import last_line
from tasks.core.sqlite import creation_lock, schema_revision
from tasks.errors import GraftError
from tasks.params.machine import Tracking
from tasks.tracking.worker_process import ENVIRONMENT


def database_of(root: Path, uri: str) -> Path | None:
    """The file of `machine.tracking.uri`; None if it is not an SQLite file."""
    return root / uri.removeprefix("sqlite:///") if uri.startswith("sqlite:///") else None


@contextmanager
def store_lock(uri: str) -> Iterator[None]:
    """In the block no other process of Graft creates or upgrades the store; a file of an older MLflow is upgraded.

    Raises GraftError if it cannot be upgraded.
    """
    file = database_of(Path(), uri)
    if file is None:
        yield
        return
    with creation_lock(file):
        _upgrade(file)
        yield


def _upgrade(file: Path) -> None:
    """Upgrade a copy, which then takes the file's place: a file whose upgrade was killed can never be opened again."""
    from mlflow.store.db.utils import _get_latest_schema_revision

    if schema_revision(file) in (None, _get_latest_schema_revision()):
        return
    copy = file.with_name(f"{file.name}.upgrade")
    copy.unlink(missing_ok=True)
    with closing(sqlite3.connect(file)) as old, closing(sqlite3.connect(copy)) as new:
        old.execute("PRAGMA journal_mode=DELETE")  # a write-ahead log would be taken for one of the upgraded file
        old.backup(new)
    command = [sys.executable, "-m", "mlflow", "db", "upgrade", f"sqlite:///{copy}"]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        why = f"its tables are those of another MLflow and cannot be upgraded ({last_line(ended.stderr)[:300]})"
        raise GraftError(f"{file}: {why}; install that version, or move the file away to begin a new one")
    os.replace(copy, file)


def mark_killed(root: Path, tracking: Tracking, flow_run_ids: Sequence[str]) -> None:
    """Set the MLflow runs of these Prefect flow runs that are shown as running to KILLED, with their stages.

    Raises GraftError if the store does not answer.
    """
    file = database_of(root, tracking.store)
    if not tracking.store or (file and not file.is_file()):  # MLflow would create it
        return
    os.environ.update({**ENVIRONMENT, **os.environ})
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    try:
        with store_lock(tracking.uri):  # a run that was killed may have left a process that is creating it
            client = MlflowClient(tracking.uri)
        known = client.get_experiment_by_name(tracking.experiment)
        for flow_run_id in flow_run_ids if known else ():
            for parent in _running(client, known.experiment_id, f"tags.`prefect.flow_run_id` = '{flow_run_id}'"):
                stages = _running(client, known.experiment_id, f"tags.`mlflow.parentRunId` = '{parent}'")
                for run_id in (*stages, parent):
                    client.set_terminated(run_id, "KILLED")
    except MlflowException as error:
        line = str(error).strip().partition("\n")[0][:200]
        raise GraftError(
            f"runs that died: MLflow ({tracking.uri}) does not answer ({line}); fix machine.tracking.uri, or its server"
        ) from None


def _running(client: Any, experiment_id: str, condition: str) -> list[str]:
    runs = client.search_runs([experiment_id], f"{condition} and attributes.status = 'RUNNING'")
    return [run.info.run_id for run in runs]
