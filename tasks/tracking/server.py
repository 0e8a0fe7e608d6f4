"""MLflow's pages on the store of a project: a server on loopback that ends with the process that started it.

    python -m tasks.tracking.server EXPERIMENT PORT

One worker and no runner of jobs: with MLflow's defaults it takes three times as long to start, and four times the
memory.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote, urlsplit

from tasks.core.child_process import end_with_parent, kill_tree, last_line, spawn
from tasks.core.loopback import HOST, answers, free_port
from tasks.core.sqlite import report_upgrade, schema_revision
from tasks.errors import GraftError, one_line
from tasks.params.machine import Tracking
from tasks.tracking.store import database_of
from tasks.tracking.worker_process import ENVIRONMENT

PORT = 5000
"""If it is free; MLflow's default."""

STARTING = 180.0
"""Seconds in which it has to answer; a quiet machine takes 12."""

TRAINING = "?workflowType=machine_learning"
"""Without it MLflow's pages show prompts, and no training run."""

STORE = "MLFLOW_BACKEND_STORE_URI"
"""By variable, since everyone on the machine can read a command line, and the address may hold a password."""


SETTINGS = {
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_SERVER_ALLOWED_HOSTS": ",".join(f"{name}{port}" for name in ("localhost", HOST) for port in ("", ":*")),
    "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS": "",  # pages of the loopback alone
    "MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE": "false",
}
"""By default MLflow also accepts `10.*` as a host, and so each name that begins like that: `10.example.org`."""


class TrackingServer:
    """The server of a project whose `machine.tracking.uri` is a database. In a `with` statement it is this object."""

    def __init__(self, root: Path, tracking: Tracking) -> None:
        """Start it."""
        self._name, self.port = tracking.experiment, free_port(PORT)
        self._url = f"http://{HOST}:{self.port}"
        self._database = database_of(root, tracking.uri)
        self._schema = schema_revision(self._database)
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (open as long as it)
        self._process = spawn(
            "tasks.tracking.server",
            self._name,
            str(self.port),
            env={**ENVIRONMENT, STORE: tracking.uri, **SETTINGS},
            cwd=root,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def __enter__(self) -> "TrackingServer":
        return self

    def __exit__(self, *_: object) -> None:
        kill_tree(self._process)

    def url(self) -> str:
        """The address of the page of the experiment's runs, once it answers. Raises GraftError if it does not."""
        limit = time.monotonic() + STARTING
        while not answers(f"{self._url}/health"):
            self.raise_if_gone()
            if time.monotonic() > limit:
                raise GraftError(f"MLflow: no answer from its server within {STARTING:g} s; run it again")
            time.sleep(0.2)
        report_upgrade(self._database, self._schema)
        return runs_url(self._url, self._name)

    def raise_if_gone(self) -> None:
        """Raise GraftError with the last line of its log if it has ended."""
        if self._process.poll() is not None:
            self._log.seek(0)
            why = last_line(self._log.read())[:300] or f"exit code {self._process.returncode}"
            raise GraftError(
                f"MLflow: its server ended ({why}); see whether machine.tracking.uri in params.yaml can be opened"
            )


def server_address(uri: str) -> str:
    """The address of a tracking server, without user and password; "" for a database."""
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https"):
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def run_address(server: str, experiment_id: str, run_id: str, file: str = "") -> str:
    """A run, or one of its files."""
    place = f"/artifacts/{file}" if file else ""
    return f"{server}/#/experiments/{experiment_id}/runs/{run_id}{place}{TRAINING}"


def runs_url(server: str, experiment: str) -> str:
    """The page of an experiment's runs on a server; of all experiments if it does not know that one."""
    question = f"{server}/api/2.0/mlflow/experiments/get-by-name?experiment_name={quote(experiment)}"
    try:
        with urllib.request.urlopen(question, timeout=5) as response:
            number = json.load(response)["experiment"]["experiment_id"]
    except (urllib.error.URLError, TimeoutError, ConnectionError, ValueError, LookupError):
        return f"{server}/#/experiments{TRAINING}"
    return f"{server}/#/experiments/{number}/runs{TRAINING}"


def serve(experiment: str, port: str) -> None:
    """Serve until standard input ends. The store and the experiment are created first, as a run creates them."""
    end_with_parent()
    from mlflow import MlflowClient
    from mlflow.cli import cli

    from tasks.tracking.mlflow_tracker import experiment_id
    from tasks.tracking.store import store_lock

    try:
        with store_lock(os.environ[STORE]):
            experiment_id(MlflowClient(os.environ[STORE]), experiment)
    except Exception as error:  # noqa: BLE001 (of any database; the line is for the process that started this one)
        sys.exit(f"{type(error).__name__}: {one_line(str(error))[:300]}")
    cli(["server", "--host", HOST, "--port", port, "--workers", "1"])


if __name__ == "__main__":
    serve(*sys.argv[1:])
