"""Prefect's and MLflow's servers and `graft serve`: started, killed and started again."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks.nights.clock import Clock
from tasks.core.loopback import answers
from tests.support.servers import mlflow_service, prefect_service
from tests.support.tiny_project import environment

PATIENCE = 180.0
"""Seconds for a server to start, or a run to end."""

TIME = "30 2 * * *"

MLFLOW_DOWNGRADE = """
from alembic import command
from mlflow.store.db.utils import _get_alembic_config

command.downgrade(_get_alembic_config("sqlite:///mlflow.db"), "-1")
"""
"""Program that takes MLflow's database back by one migration; its command line can only go forward."""


class Processes:
    """What a scheduled retraining consists of, on loopback, with a clock of its own."""

    def __init__(self, folder: Path, root: Path, clock: Clock, alerts: str) -> None:
        """`folder` keeps the records of the servers, `root` is the project."""
        self.folder, self.root = folder, root
        self._services = {"prefect": prefect_service(folder), "mlflow": mlflow_service(folder)}
        self.prefect, self.mlflow = (service.url for service in self._services.values())
        self._clock = clock.environment | {"PREFECT_RUNNER_POLL_FREQUENCY": "1"}
        self.shell = environment(
            **self._clock,
            PREFECT_HOME=str(folder / "prefect"),
            PREFECT_API_URL=f"{self.prefect}/api",
            GRAFT_ALERTS=alerts,
            MLFLOW_DISABLE_TELEMETRY="true",
            DO_NOT_TRACK="true",
        )
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *names: str) -> None:
        """Start them one after the other, and wait until each answers."""
        for name in names:
            if name == "serve":
                before = self._schedules()
                self._running[name] = self._serve()
                wait(partial(self._has_scheduled, before), name)
            else:
                service = self._services[name]
                self._running[name] = service.start(self.folder, **self._clock)
                wait(partial(answers, f"{service.url}{service.health}"), name)

    def _serve(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "flows.cli.main", "serve", "--cron", TIME]
        with (self.folder / "serve.log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=self.root, env=self.shell, stdout=log, stderr=log, start_new_session=True
            )

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

    def downgrade(self) -> None:
        """Take the servers' databases back to the schemas before the present ones, as older versions leave them."""
        prefect = ["-m", "prefect", "server", "database", "downgrade", "-y", "--revision", "-1"]
        for arguments in (prefect, ["-c", MLFLOW_DOWNGRADE]):
            subprocess.run([sys.executable, *arguments], cwd=self.folder, env=self.shell, check=True)

    def flow_runs(self) -> list[dict[str, Any]]:
        """All flow runs of the server, by the time at which they are due."""
        found: list[dict[str, Any]] = []
        while True:
            query = {"sort": "EXPECTED_START_TIME_ASC", "offset": len(found)}
            page = httpx.post(f"{self.prefect}/api/flow_runs/filter", json=query, timeout=60).raise_for_status().json()
            found += page
            if not page:
                return found


def wait(true: Callable[[], bool], name: str, seconds: float = PATIENCE) -> None:
    """Raises TimeoutError, which names what did not come."""
    limit = time.monotonic() + seconds
    while not true():
        if time.monotonic() > limit:
            raise TimeoutError(name)
        time.sleep(0.1)
