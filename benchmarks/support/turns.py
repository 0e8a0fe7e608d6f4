"""Processes measured in turns, so that other load on the machine affects all alike."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tasks.errors import GraftError


class Side:
    """A process that takes a turn for each line of input and answers with one JSON object."""

    def __init__(self, module: str, *arguments: str) -> None:
        """`python -m module arguments`"""
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def turn(self) -> dict[str, Any]:
        """The numbers of one turn. Raises GraftError with the last words of a process that ended instead."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise GraftError(f"benchmark: {self._process.stderr.read().strip().splitlines()[-1]}; mend that first")
        numbers: dict[str, Any] = json.loads(line)
        return numbers

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


def take_turns(module: str, sides: Mapping[str, Sequence[str]], count: int) -> dict[str, list[dict[str, Any]]]:
    """The numbers of `count` turns of each side, which is a name and its arguments, one after the other."""
    processes = {name: Side(module, *arguments) for name, arguments in sides.items()}
    numbers: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
    try:
        for _ in range(count):
            for name, process in processes.items():
                numbers[name].append(process.turn())
    finally:
        for process in processes.values():
            process.end()
    return numbers
