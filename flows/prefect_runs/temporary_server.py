"""Prefect's server where the user has none: for a run, or for as long as `graft serve` lasts.

    python -m flows.prefect_runs.temporary_server PORT

Prefect would start the same by itself, but only when it is asked for the first time, and wait; it would leave it
behind whenever a run is killed. Here it is started before Prefect is imported, so that the two seconds of importing
and the four of starting are the same ones, and it ends with the process that started it, however that ends.
"""

import atexit
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM
from typing import IO, Any

from flows.process.settings import PREFECT, set_environment
from flows.process.signals import block_signals
from tasks.core.child_process import python_path
from tasks.core.sqlite import damaged, set_aside
from tasks.errors import GraftError

PATIENCE = 5.0
"""Seconds for a server to end by itself."""

LISTENING = 5.0
"""Seconds for it to hear out who still speaks. A page that is open in a browser is never done."""

FINISHING = 20.0
"""Seconds for it to write down what it has heard."""

PORT = 4200
"""Of a server with pages, which is Prefect's usual one; another where it is taken."""

STARTING = "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"


class TemporaryServer:
    """A server of this process alone, on the loopback address; it goes when the process ends or `stop` is called.

    In a `with` statement it is its address, and goes with the block.
    """

    def __init__(self, home: Path | None = None, whole: bool = False) -> None:
        """Start it; `url` waits until it answers. Its database is in `home`, by default PREFECT_HOME.

        `whole`: with its pages, and with its services, without which no schedule fires.
        """
        self._home = home or Path(os.environ["PREFECT_HOME"]).expanduser()
        self._whole = whole
        self._port = _free_port(PORT if whole else 0)
        self._begin()
        atexit.register(self.stop)  # not earlier: on leaving, Prefect still sends what happened last

    def __enter__(self) -> str:
        return self.url()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def url(self) -> str:
        """Where its API is. Begins anew where it was killed on its way; raises GraftError where it does not come up."""
        url = _api(self._port)
        limit = time.monotonic() + float(os.environ.get(STARTING, PREFECT[STARTING]))
        while not _answers(url):
            code, late = self._process.poll(), time.monotonic() > limit
            if code is not None and code < 0 and not late:
                self._begin()
            elif code is not None or late:
                self.stop()
                raise GraftError(
                    f"prefect: its server did not start ({self._last_words()}); graft doctor checks the disk, and "
                    "whether its versions are the pinned ones"
                )
            time.sleep(0.05)
        return url

    def keep(self) -> None:
        """Start it anew, at the same address, where it was ended; warns where it does not come up."""
        if self._process.poll() is not None:
            try:
                self._begin()
                self.url()
            except GraftError as error:
                print(f"warning: {error}", file=sys.stderr)

    def stop(self) -> None:
        """End it; nothing happens where it is gone already."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(FINISHING + 2 * PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _begin(self) -> None:
        database = self._home / "prefect.db"
        if damaged(database):
            print(f"warning: {database}: damaged; set aside as {set_aside(database).name}", file=sys.stderr)
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (lives as long as it)
        self._process = _process(self._port, self._log, self._home, self._whole)

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = [line.strip() for line in self._log if line.strip()]
        return lines[-1][:300] if lines else "no answer"


def _process(port: int, log: IO[str], home: Path, whole: bool) -> "subprocess.Popen[bytes]":
    """The server, which lives as long as the pipe to its standard input is open.

    It does not hear what ends a run: a server that is gone could not be told of the interrupted run, and Prefect would
    try for a minute.
    """
    part = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1"}
    own = {"PREFECT_SERVER_UI_API_URL": _api(port)} if whole else part
    own |= {"PREFECT_HOME": str(home), "PREFECT__SERVER_FINAL": "1"}
    with block_signals(SIGINT, SIGTERM, SIGHUP):
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "flows.prefect_runs.temporary_server", str(port)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **own, "PYTHONPATH": python_path()},
        )


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False


def _api(port: int) -> str:
    return f"http://127.0.0.1:{port}/api"


def _free_port(wanted: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server: one that was killed is no holder
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def serve(port: int) -> None:
    """Serve Prefect's API on loopback until standard input ends."""
    import uvicorn

    factory = "prefect.server.api.server:create_app"
    config = uvicorn.Config(factory, factory=True, host="127.0.0.1", port=port, log_level="error", lifespan="on")
    server = uvicorn.Server(config)
    threading.Thread(target=_end_with_input, args=(server,), daemon=True).start()
    server.run()


def _end_with_input(server: Any) -> None:
    sys.stdin.buffer.read()
    try:
        _finish(server)
    finally:
        server.should_exit = True
        time.sleep(PATIENCE)
        os._exit(0)


def _finish(server: Any) -> None:
    """Let the server do what it was told: what became of a task waits in memory, and would go with the process."""
    from prefect.server.utilities.messaging.memory import Topic

    def waiting() -> bool:
        topics = [*Topic._topics.values()]
        return any(s._queue.qsize() or s._retry.qsize() for topic in topics for s in [*topic._subscriptions])

    begun = time.monotonic()
    while time.monotonic() < begun + FINISHING and (
        waiting() or (server.server_state.tasks and time.monotonic() < begun + LISTENING)
    ):
        time.sleep(0.02)


if __name__ == "__main__":
    set_environment()
    serve(int(sys.argv[1]))
