"""A child process that is asked and answers in lines of JSON, over its standard input and output."""

import json
import os
import signal
import subprocess
from multiprocessing.connection import wait
from queue import SimpleQueue
from typing import Any

from tasks.core.child_process import end_with_parent, kill_tree, spawn


class JsonProcess:
    """The parent's side: `python -m module`, which speaks through a ParentConnection."""

    def __init__(self, module: str, *arguments: str, **options: Any) -> None:
        """`options`: of `spawn`."""
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
