"""The processes beside a run. They come up while the run imports what it needs, which takes as long."""

import os
from dataclasses import dataclass

from flows.prefect_runs.temporary_server import TemporaryServer
from tasks.params.params import Params
from tasks.tracking.mlflow_process import Worker
from tasks.tracking.recorder import place


@dataclass
class Beside:
    """Prefect's server, where the user has none, and the process that talks to MLflow, where it is wanted."""

    server: TemporaryServer | None
    worker: Worker | None


def start_beside(params: Params, worker: Worker | None) -> Beside:
    """Start Prefect's server, and tell the worker where it is to tell what follows; both end with this process."""
    server = None if os.environ.get("PREFECT_API_URL") else TemporaryServer()
    if worker and not params.tracking.uri:
        worker.end()
        worker = None
    try:
        return Beside(server, worker and place(worker, params.tracking))
    except OSError:  # the recorder tries again, and warns
        return Beside(server, None)
