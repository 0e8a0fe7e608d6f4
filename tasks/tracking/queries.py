"""Read runs from MLflow, and end those that were killed. `tasks.tracking.recorder` writes them."""

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tasks.artifacts import read_text
from tasks.core.sqlite import sqlite_file
from tasks.errors import GraftError
from tasks.params.machine import Tracking
from tasks.tracking.mlflow_ledger import store_lock
from tasks.tracking.mlflow_process import ENVIRONMENT, SECONDS


def fetch_text(root: Path, tracking: Tracking, name: str, file: str) -> str | None:
    """A text file of a run, found by its id or name in the store of the project in `root`; None without such a run.

    Raises GraftError if the store does not answer, several runs have the name, or the run has no such file.
    """
    if not has_store(root, tracking):
        return None
    with open_store(tracking, name) as client:
        run_id = _run_id(client, tracking.experiment, name)
        if run_id is None:
            return None
        if file not in [found.path for found in client.list_artifacts(run_id)]:
            raise GraftError(
                f"{name}: MLflow ({tracking.uri}) has no {file} of it, as it did not finish or is "
                "of an earlier Graft; name the folder of that run instead"
            )
        with tempfile.TemporaryDirectory() as folder:
            return read_text(Path(client.download_artifacts(run_id, file, folder)))


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
    os.environ["MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"] = "false"
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


def _run_id(client: Any, experiment: str, name: str) -> str | None:
    from mlflow.exceptions import MlflowException

    if re.fullmatch("[0-9a-f]{32}", name):
        try:
            return str(client.get_run(name).info.run_id)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return None
    known = client.get_experiment_by_name(experiment)
    if known is None or "'" in name:
        return None
    runs = client.search_runs([known.experiment_id], f"attributes.run_name = '{name}'")
    if len(runs) > 1:
        raise GraftError(
            f"{name}: {len(runs)} MLflow runs have this name; give an id: {', '.join(r.info.run_id for r in runs)}"
        )
    return str(runs[0].info.run_id) if runs else None


def has_store(root: Path, tracking: Tracking) -> bool:
    """True if there is a store: MLflow would create a missing sqlite store."""
    store = sqlite_file(tracking.uri)
    return bool(tracking.uri) and (store is None or (root / store).is_file())
