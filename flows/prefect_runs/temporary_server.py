"""A Prefect server for one run, or for as long as `graft serve` or `graft ui` lasts, if the user has none.

    python -m flows.prefect_runs.temporary_server PORT

Prefect's own `SubprocessASGIServer` (3.9.1) does not serve here: stopped, it cancels the writers of what it has
received (of 120 task runs its database kept 10 and 11); after a kill -9 of the run it goes on for ever; Ctrl-C in a
terminal ends it before the run; and it starts no scheduler.
"""

import asyncio
import atexit
import math
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM
from typing import Any, Literal

from flows.process.settings import PREFECT, set_environment
from flows.process.signals import block_signals
from tasks.core.child_process import end_with_parent, kill_tree, last_line, read_input_to_end, spawn
from tasks.core.loopback import HOST, LoopbackGuard, answers, free_port
from tasks.core.sqlite import creation_lock, is_damaged, report_upgrade, schema_revision, set_aside
from tasks.core.terminal import print_warning
from tasks.errors import GraftError

STOPPING = 30.0
"""Seconds in which a server has to end."""

WRITING, LISTENING = 20.0, 5.0
"""Seconds to write what it has received, and to wait for open connections: those of a browser never end."""

PORT = int(os.environ.get("PREFECT_SERVER_API_PORT", "4200"))
"""Port of a server with pages, if it is free: Prefect's setting, with its default."""

ServerPart = Literal["api", "pages", "all"]
"""`api`: for one run; `pages`: to look at runs, without the services that start scheduled ones; `all`: both."""

_SETTINGS: dict[ServerPart, dict[str, str]] = {
    "api": {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1"},
    "pages": {"PREFECT__SERVER_WEBSERVER_ONLY": "1"},
    "all": {},
}

STARTING = "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"


class TemporaryServer:
    """A server on the loopback address that ends with this process. In a `with` statement it is its URL."""

    def __init__(self, home: Path | None = None, part: ServerPart = "api") -> None:
        """Start it. Its database is in `home`, by default PREFECT_HOME."""
        self._home = home or Path(os.environ["PREFECT_HOME"]).expanduser()
        self._database = self._home / "prefect.db"
        self._schema = schema_revision(self._database)
        self.port = free_port(0 if part == "api" else PORT)
        self._api = f"http://{HOST}:{self.port}/api"
        self._answered = math.inf
        self._settings = {**_SETTINGS[part], "PREFECT_SERVER_UI_API_URL": self._api}
        self._settings["PREFECT_SERVER_DATABASE_MIGRATE_ON_START"] = "0"  # `serve` has done it, with a lock
        self._start()
        atexit.register(self.stop)  # after Prefect's own handlers, which send the last events

    def __enter__(self) -> str:
        return self.url()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def url(self) -> str:
        """The address of its API, once it answers. Starts it again if it was killed; raises GraftError otherwise."""
        limit = time.monotonic() + float(os.environ.get(STARTING, PREFECT[STARTING]))
        while not answers(f"{self._api}/health"):
            code, late = self._process.poll(), time.monotonic() > limit
            if code is not None and code < 0 and not late:
                self._start()
            elif code is not None or late:
                self.stop()
                self._log.seek(0)
                why = last_line(self._log.read())[:300] or "no answer"
                raise GraftError(
                    f"prefect: its server did not start ({why}); graft doctor checks the disk, and whether its "
                    "versions are the pinned ones"
                )
            time.sleep(0.05)
        self._answered = time.monotonic()
        report_upgrade(self._database, self._schema)
        self._schema = schema_revision(self._database)
        return self._api

    def restart_if_gone(self) -> None:
        """Start it again at the same address if it has ended; a warning if that fails."""
        if self._process.poll() is not None:
            try:
                self._start()
                self.url()
            except GraftError as error:
                print_warning(error)

    def answers_since(self, moment: float) -> bool:
        """False if it has ended, or been started again, after `moment` on the monotonic clock."""
        return self._process.poll() is None and self._answered < moment

    def stop(self) -> None:
        """End it, after it has written what it has received."""
        assert self._process.stdin is not None
        self._process.stdin.close()  # the end of its input asks it to end; a signal would cancel its writers
        try:
            self._process.wait(STOPPING)
        except subprocess.TimeoutExpired:
            kill_tree(self._process)

    def _start(self) -> None:
        self._answered = math.inf
        if is_damaged(self._database):
            aside = set_aside(self._database).name
            print_warning(f"{self._database}: damaged; set aside as {aside}")
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (open as long as it)
        with block_signals(SIGINT, SIGTERM, SIGHUP):  # the interrupted run is still to be reported to it
            self._process = spawn(
                "flows.prefect_runs.temporary_server",
                str(self.port),
                env={**self._settings, "PREFECT_HOME": str(self._home), "PREFECT__SERVER_FINAL": "1"},
                stdout=self._log,
                stderr=subprocess.STDOUT,
            )


def serve(port: int) -> None:
    """Serve Prefect's API on loopback until standard input ends."""
    import uvicorn
    from prefect.server.api.server import create_app

    _migrate(Path(os.environ["PREFECT_HOME"]) / "prefect.db")
    app = LoopbackGuard(create_app())
    server = uvicorn.Server(uvicorn.Config(app, host=HOST, port=port, log_level="error", lifespan="on"))
    end_with_parent(partial(_stop_at_end_of_input, server))
    server.run()


def _migrate(path: Path) -> None:
    """Create or upgrade the tables: of several servers that start at once, one does, and the others wait for it."""
    from prefect.server.database import provide_database_interface

    with creation_lock(path):
        asyncio.run(provide_database_interface().create_db())


def _stop_at_end_of_input(server: Any) -> None:
    """Stop once what the server has received is in its database: states of task runs wait in queues in memory."""
    from prefect.server.utilities.messaging.memory import Topic

    def waiting() -> bool:
        readers = [reader for topic in [*Topic._topics.values()] for reader in [*topic._subscriptions]]
        return any(reader._queue.qsize() or reader._retry.qsize() for reader in readers)

    read_input_to_end()
    begun = time.monotonic()
    while time.monotonic() < begun + WRITING and (
        waiting() or (server.server_state.tasks and time.monotonic() < begun + LISTENING)
    ):
        time.sleep(0.02)
    server.should_exit = True
    time.sleep(LISTENING)


if __name__ == "__main__":
    set_environment()
    serve(int(sys.argv[1]))
