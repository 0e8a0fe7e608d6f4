"""Prefect's and MLflow's servers, `graft serve`, and a listener for alerts: started, killed and started again."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks.nights.clock import Clock
from tasks.core.loopback import free_port
from tests.support.tiny_project import environment

PATIENCE = 180.0
"""Seconds for a server to start, or a run to end."""

TIME = "30 2 * * *"

HEALTH = {"prefect": "/api/health", "mlflow": "/health"}


class Processes:
    """What a scheduled retraining consists of, on loopback, with a clock of its own."""

    def __init__(self, folder: Path, root: Path, clock: Clock, alerts: str) -> None:
        """`folder` keeps the records of the servers, `root` is the project."""
        self.folder, self.root = folder, root
        ports = {"prefect": free_port(), "mlflow": free_port()}
        self.prefect, self.mlflow = (f"http://127.0.0.1:{port}" for port in ports.values())
        self._environment = environment(
            **clock.environment,
            PREFECT_HOME=str(folder / "prefect"),
            PREFECT_RUNNER_POLL_FREQUENCY="1",
            PREFECT_SERVER_ANALYTICS_ENABLED="false",
            MLFLOW_BACKEND_STORE_URI="sqlite:///mlflow.db",
            MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false",
            MLFLOW_DISABLE_TELEMETRY="true",
            DO_NOT_TRACK="true",
        )
        local = ["--host", "127.0.0.1", "--port"]
        artifacts = ["--workers", "1", "--artifacts-destination", str(folder / "artifacts")]
        self._commands = {
            "prefect": (["-m", "prefect", "server", "start", *local, str(ports["prefect"])], folder),
            "mlflow": (["-m", "mlflow", "server", *local, str(ports["mlflow"]), *artifacts], folder),
            "serve": (["-m", "flows.cli.main", "serve", "--cron", TIME], root),
        }
        self.shell = {**self._environment, "PREFECT_API_URL": f"{self.prefect}/api", "GRAFT_ALERTS": alerts}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *names: str) -> None:
        """Start them one after the other, and wait until each answers."""
        for name in names:
            before = self._schedules()
            arguments, folder = self._commands[name]
            own = self.shell if name == "serve" else self._environment
            with (self.folder / f"{name}.log").open("ab") as log:
                self._running[name] = subprocess.Popen(
                    [sys.executable, *arguments], cwd=folder, env=own, stdout=log, stderr=log, start_new_session=True
                )
            if name == "serve":
                wait(partial(self._has_scheduled, before), name)
            else:
                wait(partial(answers, f"{getattr(self, name)}{HEALTH[name]}"), name)

    def _schedules(self) -> int:
        """How often `graft serve` has said that it has a schedule."""
        log = self.folder / "serve.log"
        return log.read_text().count("scheduled at") if log.exists() else 0

    def _has_scheduled(self, before: int) -> bool:
        return self._schedules() > before

    def restart_if_ended(self, name: str) -> None:
        """As a service with `Restart=on-failure` does."""
        if self._running[name].poll() is not None:
            self.start(name)

    def kill(self, *names: str) -> None:
        """Kill them: a server with its children, `graft serve` alone, so that its run goes on."""
        for name in names:
            process = self._running.pop(name)
            with suppress(ProcessLookupError):
                (os.kill if name == "serve" else os.killpg)(process.pid, signal.SIGKILL)
            process.wait()

    def kill_all(self) -> None:
        """Kill everything, as a power cut does."""
        self.kill(*self._running)
        self.kill_run()

    def kill_run(self) -> None:
        """Kill the processes of a run: all that work in the project, but `graft serve`."""
        for process in psutil.process_iter(["cwd", "cmdline"]):
            if process.info["cwd"] == str(self.root) and "serve" not in (process.info["cmdline"] or []):
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    def graft(self, *arguments: str) -> str:
        """A command of Graft in the project, and what it printed."""
        command = [sys.executable, "-m", "flows.cli.main", *arguments]
        ended = subprocess.run(command, cwd=self.root, env=self.shell, capture_output=True, text=True, timeout=PATIENCE)
        if ended.returncode:
            raise RuntimeError(f"graft {' '.join(arguments)}: {ended.stdout}{ended.stderr}")
        return ended.stdout

    def flow_runs(self) -> list[dict[str, Any]]:
        """All flow runs of the server, by the time at which they are due."""
        found: list[dict[str, Any]] = []
        while True:
            query = {"sort": "EXPECTED_START_TIME_ASC", "offset": len(found)}
            page = httpx.post(f"{self.prefect}/api/flow_runs/filter", json=query, timeout=60).raise_for_status().json()
            found += page
            if not page:
                return found


class Listener:
    """Takes what Apprise posts: the time of each, its title and its line."""

    def __init__(self, clock: Clock) -> None:
        self.received: list[tuple[datetime, tuple[str, str]]] = []
        received = self.received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                received.append((clock.now(), (body["title"], body["message"])))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"json://127.0.0.1:{self._server.server_port}/"


def wait(true: Callable[[], bool], name: str, seconds: float = PATIENCE) -> None:
    """Raises TimeoutError, which names what did not come."""
    limit = time.monotonic() + seconds
    while not true():
        if time.monotonic() > limit:
            raise TimeoutError(name)
        time.sleep(0.1)


def answers(url: str) -> bool:
    """Whether a server answers."""
    try:
        return httpx.get(url, timeout=5).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
