"""Start the process that talks to the tracker, so that no run imports MLflow or waits for it."""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import IO

from tasks.core.child_process import spawn
from tasks.params.machine import Tracking

SECONDS = 60
"""Longest wait for the tracker at the end of a run, and for one of its answers."""

ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # with MLflow's default a call to a dead server takes minutes
    "MLFLOW_HTTP_REQUEST_TIMEOUT": str(SECONDS),
}

REMEDY = "fix machine.tracking.uri or start the server"


def start_worker(root: Path, tracking: Tracking) -> tuple["subprocess.Popen[str]", IO[str]]:
    """The process, with its tracker opened, and its log. Raises OSError.

    It starts in the project folder, where a relative sqlite store and MLflow's own folders belong.
    """
    log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (closed by its reader)
    process = spawn(
        "tasks.tracking.worker",
        env={**ENVIRONMENT, **os.environ},
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        encoding="utf-8",
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(dict(tracking)) + "\n")  # a dump would lack the password
    process.stdin.flush()
    return process, log
