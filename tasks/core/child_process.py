"""Child processes: started in a session of their own, ended with their parent, killed together with their descendants.

    parent ── pipe to the child's standard input ──► child: `end_with_parent` waits for the end of the input

The kernel closes the pipe however the parent ends, by kill -9 too. In a session of its own a child does not receive
Ctrl-C from the terminal: the parent does, and ends the child.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL
from typing import Any

CODE = Path(__file__).resolve().parents[2]
"""The folder that contains the packages `flows` and `tasks`."""


def python_path() -> str:
    """PYTHONPATH for a child process that imports this Graft; entries of the present one follow."""
    more = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(CODE), more] if more else [str(CODE)])


def spawn(
    module: str, *arguments: str, env: Mapping[str, str] | None = None, **options: Any
) -> "subprocess.Popen[Any]":
    """Start `python -m module` with a pipe as its standard input. `env`: variables to add; `options`: of Popen."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.PIPE,
        env={**os.environ, **(env or {}), "PYTHONPATH": python_path()},
        start_new_session=True,
        **options,
    )


def read_input_to_end() -> None:
    """Wait until the other end of standard input is closed."""
    while os.read(0, 1 << 16):
        pass


def end_with_parent(wait: Callable[[], object] = read_input_to_end) -> None:
    """Called in the child: kill this process, and its group if it leads one, as soon as `wait` returns."""

    def watch() -> None:
        try:
            wait()
        finally:
            if os.getpgrp() == os.getpid():
                os.killpg(0, SIGKILL)
            os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def kill_tree(process: "subprocess.Popen[Any]") -> int:
    """Kill a spawned process and all its descendants, and return its exit code; one that was waited for is left."""
    import psutil

    if process.returncode is None:  # until it is waited for, its pid and its group are its own
        descendants: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess):
            descendants = psutil.Process(process.pid).children(recursive=True)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, SIGKILL)
        for descendant in descendants:  # those in sessions of their own
            with suppress(psutil.NoSuchProcess):
                descendant.kill()
    if process.stdin:
        with suppress(BrokenPipeError):
            process.stdin.close()
    return process.wait()


def last_line(text: str) -> str:
    """The last line of a log that is neither empty nor a ruler nor SQLAlchemy's reference; "" if there is none."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" =")]
    return next((line for line in reversed(lines) if not line.startswith("(Background on this error at")), "")
