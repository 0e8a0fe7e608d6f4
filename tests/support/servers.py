"""Real servers on loopback: Prefect's and MLflow's, started by the commands of docs/operations.md."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
    """Both, beside each other. `store` says what they keep their records in."""

    prefect: Server
    mlflow: Server
    store: str


@contextmanager
def both(folder: Path, prefect: str = "", mlflow: str = "") -> Iterator[Servers]:
    """Started at the same moment, which halves the wait; on Postgres where addresses of its databases are given."""
    with prefect_server(folder, prefect) as first, mlflow_server(folder, mlflow) as second:
        yield Servers(first.ready(), second.ready(), "postgres" if prefect else "sqlite")


class Service(NamedTuple):
    """How a server is started, and where it answers."""

    command: list[str]
    url: str
    health: str
    settings: dict[str, str]

    def start(self, folder: Path, **environment: str) -> "subprocess.Popen[bytes]":
        """Start it in `folder`, in a process group of its own. Its log there is added to."""
        program = str(Path(sys.executable).with_name(self.command[0]))
        with self.log(folder).open("ab") as stream:
            return subprocess.Popen(
                [program, *self.command[1:]],
                cwd=folder,
                env=tiny_project.environment(**environment, **self.settings),
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def log(self, folder: Path) -> Path:
        return folder / f"{self.command[0]}.log"


def prefect_service(folder: Path, database: str = "") -> Service:
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
    return Service(command, url, "/api/health", settings)


def mlflow_service(folder: Path, database: str = "", port: int | None = None) -> Service:
    """The same for MLflow; artifacts lie in the folder and pass through the server."""
    port = port or free_port()
    settings = {
        "MLFLOW_BACKEND_STORE_URI": f"postgresql://{database}" if database else "sqlite:///mlflow.db",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    command = ["mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    return Service(command, f"http://127.0.0.1:{port}", "/health", settings)


@contextmanager
def prefect_server(folder: Path, database: str = "") -> Iterator[Server]:
    """Started, and ended afterwards; its first answer is for `ready` to wait for."""
    with _running(prefect_service(folder, database), folder) as server:
        yield server


@contextmanager
def mlflow_server(folder: Path, database: str = "", port: int | None = None) -> Iterator[Server]:
    with _running(mlflow_service(folder, database, port), folder) as server:
        yield server


@contextmanager
def _running(service: Service, folder: Path) -> Iterator[Server]:
    """The server with its whole process group ended afterwards: both servers start others."""
    process = service.start(folder)
    try:
        yield Server(service.url, service.health, process, service.log(folder))
    finally:
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(20)
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            return
