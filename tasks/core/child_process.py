"""Child processes: started in a session of their own, ended with their parent, killed together with their descendants.

    parent ── pipe to the child's standard input ──► child: `end_with_parent` waits for the end of the input

The kernel closes the pipe however the parent ends, by kill -9 too. In a session of its own a child does not receive
Ctrl-C from the terminal: the parent does, and ends the child.

A JsonProcess is asked and answers in lines of JSON, over its standard input and output.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from queue import SimpleQueue
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
                os.killpg(0, signal.SIGKILL)
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
            os.killpg(process.pid, signal.SIGKILL)
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


class JsonProcess:
    """The parent's side: `python -m module`, which speaks through a ParentConnection."""

    def __init__(self, module: str, *arguments: str, **options: Any) -> None:
        """Start the child; `options` are those of `spawn`."""
        self._process = spawn(module, *arguments, stdout=subprocess.PIPE, **options)
        self.pid = self._process.pid

    def send(self, message: Any) -> bool:
        """False if the process has ended."""
        assert self._process.stdin is not None
        if self._process.poll() is not None:
            return False
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return False
        return True

    def receive(self, seconds: float) -> Any:
        """The next answer.

        Raises TimeoutError, EOFError in words where the process ended, and then it is killed; ValueError for no JSON.
        """
        assert self._process.stdout is not None
        if self._process.stdout.closed:
            raise EOFError("has ended")
        if not wait([self._process.stdout.fileno()], seconds):
            self.kill()
            raise TimeoutError(f"no answer within {seconds:g} s")
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            code = self.kill()
            raise EOFError(f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}")
        return parse(line)

    def kill(self) -> int:
        """Kill it with its descendants, if it has not ended; returns the exit code."""
        code = kill_tree(self._process)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code


def parse(line: bytes) -> Any:
    """The JSON of a line, which whatever runs in the child may have written. Raises ValueError."""
    try:
        return json.loads(line)
    except RecursionError as error:
        raise ValueError(str(error)) from None


class ParentConnection:
    """The child's side. Whatever else the process reads finds nothing, and whatever it prints goes to standard error.

    The process ends with its parent.
    """

    def __init__(self) -> None:
        self._messages, self._answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        self._waiting: SimpleQueue[bytes] = SimpleQueue()
        end_with_parent(self._listen)

    def receive(self) -> Any:
        """The next message; waits for it."""
        return json.loads(self._waiting.get())

    def send(self, answer: Any) -> None:
        self._answers.write(json.dumps(answer).encode() + b"\n")
        self._answers.flush()

    def _listen(self) -> None:
        for line in self._messages:
            self._waiting.put(line)
