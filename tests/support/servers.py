"""Real servers on loopback: Prefect's and MLflow's, started by the commands of docs/operations.md."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tasks.core.loopback import answers, free_port
from tests.support import tiny_project

PATIENCE = 240  # seconds for a server on a busy machine; a quiet one needs 10


@dataclass(frozen=True)
class Server:
    """A server that was started. `url` has no slash at its end."""

    url: str
    health: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def ready(self) -> "Server":
        """This server, once it answers."""
        end = time.monotonic() + PATIENCE
        while not answers(f"{self.url}{self.health}"):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, f"no answer from {self.url}\n{self.log.read_text()}"
            time.sleep(0.2)
        return self


class Servers(NamedTuple):
    """Both, beside each other."""

    prefect: Server
    mlflow: Server


@contextmanager
def both(folder: Path, prefect: str = "", mlflow: str = "") -> Iterator[Servers]:
    """Started at the same moment, which halves the wait; on Postgres where addresses of its databases are given."""
    with prefect_server(folder, prefect) as first, mlflow_server(folder, mlflow) as second:
        yield Servers(first.ready(), second.ready())


def prefect_server(folder: Path, database: str = "") -> AbstractContextManager[Server]:
    """`database`: the address of a Postgres database without the scheme; SQLite in the folder where there is none."""
    port = str(free_port())
    url = f"http://127.0.0.1:{port}"
    settings = {
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_SERVER_UI_API_URL": f"{url}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "true",
    }
    if database:
        settings["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = f"postgresql+asyncpg://{database}"
    command = ["prefect", "server", "start", "--host", "127.0.0.1", "--port", port]
    return _running(folder, command, settings, url, "/api/health")


def mlflow_server(folder: Path, database: str = "", port: int | None = None) -> AbstractContextManager[Server]:
    """The same for MLflow; artifacts lie in the folder and pass through the server."""
    port = port or free_port()
    settings = {
        "MLFLOW_BACKEND_STORE_URI": f"postgresql://{database}" if database else "sqlite:///mlflow.db",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    command = ["mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    return _running(folder, command, settings, f"http://127.0.0.1:{port}", "/health")


@contextmanager
def _running(folder: Path, command: list[str], settings: dict[str, str], url: str, health: str) -> Iterator[Server]:
    """A server in `folder`, whose log there is added to; at the end its process group ends: both start others."""
    log = folder / f"{command[0]}.log"
    with log.open("ab") as stream:
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name(command[0])), *command[1:]],
            cwd=folder,
            env=tiny_project.environment(**settings),
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Server(url, health, process, log)
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, number)
                process.wait(20)
