"""Real servers on loopback: Prefect's and MLflow's, started by the commands of docs/operations.md."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

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
        while not _answers(f"{self.url}{self.health}"):
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


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@contextmanager
def prefect_server(folder: Path, database: str = "") -> Iterator[Server]:
    """Started, and ended afterwards; its first answer is for `ready` to wait for.

    `database` is the address of a Postgres database, without the scheme; SQLite in the folder where there is none.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    settings = {
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_SERVER_UI_API_URL": f"{url}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "true",
    }
    if database:
        settings["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = f"postgresql+asyncpg://{database}"
    command = ["prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with _running(command, folder, url, "/api/health", settings) as server:
        yield server


@contextmanager
def mlflow_server(folder: Path, database: str = "", port: int | None = None) -> Iterator[Server]:
    """The same for MLflow; artifacts lie in the folder and pass through the server."""
    port = port or free_port()
    url = f"http://127.0.0.1:{port}"
    settings = {
        "MLFLOW_BACKEND_STORE_URI": f"postgresql://{database}" if database else "sqlite:///mlflow.db",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    command = ["mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    with _running(command, folder, url, "/health", settings) as server:
        yield server


@contextmanager
def _running(command: list[str], folder: Path, url: str, health: str, settings: dict[str, str]) -> Iterator[Server]:
    """The command with its whole process group ended afterwards: both servers start others."""
    program = str(Path(sys.executable).with_name(command[0]))
    log = folder / f"{command[0]}.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [program, *command[1:]],
            cwd=folder,
            env=tiny_project.environment(**settings),
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Server(url, health, process, log)
    finally:
        _end(process)


def _answers(address: str) -> bool:
    try:
        with urlopen(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def _end(process: "subprocess.Popen[bytes]") -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(20)
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            return
