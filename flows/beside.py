"""The processes beside a run. They come up while the run imports what it needs, which takes as long."""

import os
from dataclasses import dataclass
from pathlib import Path

from flows.server import TemporaryServer
from tasks.params import Params
from tasks.tracking import Worker, start_worker


@dataclass
class Beside:
    """Prefect's server, where the user has none, and the process that talks to MLflow, where it is wanted."""

    server: TemporaryServer | None
    worker: Worker | None


def start_beside(root: Path, params: Params) -> Beside:
    """Start them. Both end with this process."""
    server = None if os.environ.get("PREFECT_API_URL") else TemporaryServer()
    try:
        worker = start_worker(root, params)
    except OSError:
        worker = None  # the recorder tries again, and warns
    return Beside(server, worker)
