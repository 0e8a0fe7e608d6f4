"""End the runs in MLflow that were killed. `tasks.tracking.recorder` writes them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.errors import GraftError
from tasks.params.machine import Tracking
from tasks.tracking.store import database_of, store_lock
from tasks.tracking.worker_process import ENVIRONMENT


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
