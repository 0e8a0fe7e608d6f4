"""The process that talks to MLflow, as others see it.

A run starts it before all else: MLflow takes as long to be imported as the run to get ready. So this imports little.
"""

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tasks.core.child_process import python_path

ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # MLflow's own default keeps a dead server's caller for minutes
}

NICE = 10
"""Of the process, beside stages that compute."""


@dataclass
class Worker:
    """It waits for where it is to tell what follows. It ends by itself when the process that started it does."""

    process: "subprocess.Popen[str]"
    log: IO[str]

    def give_way(self) -> None:
        """What is computed comes first."""
        with suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, self.process.pid, NICE)

    def end(self) -> None:
        """Nothing is to be told."""
        self.process.kill()
        self.process.communicate()
        self.log.close()


def start_worker(root: Path) -> Worker:
    """Start it in the project folder, where a relative sqlite store and MLflow's own folders belong. Raises OSError.

    Away from the terminal's process group, so that Ctrl-C ends the run and the worker can still record that.
    """
    log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (closed by who reads it)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "tasks.tracking.mlflow_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        encoding="utf-8",
        cwd=root,
        env={**ENVIRONMENT, **os.environ, "PYTHONPATH": python_path()},
        start_new_session=True,
    )
    return Worker(process, log)
