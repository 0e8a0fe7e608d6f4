"""The process that holds a sampling server: starts the command, and ends it when the stage ends, however that ends.

    stage ── pipe to standard input ──► supervisor ──► the server's command and its children, in one process group

    python -m tasks.model.sampling.vllm.supervisor COMMAND ARGUMENT …

A stage that is killed by kill -9 closes the pipe, too. The server is asked to end by SIGTERM, as vLLM then removes its
shared memory; what is left after GRACE seconds is killed.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from signal import SIG_IGN, SIGINT, SIGKILL, signal

import psutil

from tasks.core.child_process import read_input_to_end

GRACE = 3.0
"""Seconds from SIGTERM to SIGKILL."""

POLL = 0.1
"""Seconds between two looks at the server."""


def main(command: Sequence[str]) -> None:
    """Run the command until it ends or standard input does; then kill its process group, this process included."""
    signal(SIGINT, SIG_IGN)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)[1:]  # the first is Graft's, for this process alone
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment)
    over = threading.Event()

    def watch() -> None:
        read_input_to_end()
        over.set()

    threading.Thread(target=watch, name="parent", daemon=True).start()
    while server.poll() is None and not over.wait(POLL):
        pass
    end_server(server.pid)
    if os.getpgrp() == os.getpid():
        os.killpg(0, SIGKILL)


def end_server(pid: int) -> None:
    """End the process and all its descendants, those in sessions of their own included."""
    with suppress(psutil.NoSuchProcess):
        server = psutil.Process(pid)
        processes = [server, *server.children(recursive=True)]
        server.terminate()
        for process in psutil.wait_procs(processes, timeout=GRACE)[1]:
            with suppress(psutil.NoSuchProcess):
                process.kill()


if __name__ == "__main__":
    main(sys.argv[1:])
