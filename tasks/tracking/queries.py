"""End the runs in MLflow that were killed. `tasks.tracking.recorder` writes them."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tasks.core.sqlite import sqlite_file
from tasks.errors import GraftError
from tasks.params.machine import Tracking
from tasks.tracking.mlflow_process import ENVIRONMENT, SECONDS
from tasks.tracking.store import store_lock


def mark_killed(root: Path, tracking: Tracking, flow_run_ids: Sequence[str]) -> None:
    """Set the MLflow runs of these Prefect flow runs that are shown as running to KILLED, with their stages.

    Raises GraftError if the store does not answer.
    """
    if not has_store(root, tracking):
        return
    with open_store(tracking, "runs that died") as client:
        known = client.get_experiment_by_name(tracking.experiment)
        for flow_run_id in flow_run_ids if known else ():
            parents = _running(client, known.experiment_id, f"tags.`prefect.flow_run_id` = '{flow_run_id}'")
            for parent in parents:
                stages = _running(client, known.experiment_id, f"tags.`mlflow.parentRunId` = '{parent}'")
                for run_id in (*stages, parent):
                    client.set_terminated(run_id, "KILLED")


def _running(client: Any, experiment_id: str, condition: str) -> list[str]:
    runs = client.search_runs([experiment_id], f"{condition} and attributes.status = 'RUNNING'")
    return [run.info.run_id for run in runs]


@contextmanager
def open_store(tracking: Tracking, name: str) -> Iterator[Any]:
    """A client of the store; its errors are raised as a GraftError of one line about `name`."""
    os.environ.update({name: value for name, value in ENVIRONMENT.items() if name not in os.environ})
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", str(SECONDS))
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    try:
        with store_lock(tracking.uri):  # a run that was killed may have left a process that is creating it
            client = MlflowClient(tracking.uri)
        yield client
    except MlflowException as error:
        line = str(error).strip().partition("\n")[0][:200]
        raise GraftError(
            f"{name}: MLflow ({tracking.uri}) does not answer ({line}); fix machine.tracking.uri, or its server"
        ) from None


def has_store(root: Path, tracking: Tracking) -> bool:
    """True if there is a store: MLflow would create a missing sqlite store."""
    store = sqlite_file(tracking.uri)
    return bool(tracking.uri) and (store is None or (root / store).is_file())
