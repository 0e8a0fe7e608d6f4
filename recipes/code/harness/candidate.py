"""The process of programs under test: it defines their functions and answers calls. Standard library only.

It receives programs and, for each, the names and the arguments of calls, one by one, and sends results as plain data.
It never has the tests: they are in another child (tester.py), which alone compares and reports.
"""

import json
import os
import re
import sys
import typing
from collections.abc import Callable
from typing import Any

from recipes.code.harness import wire
from recipes.code.harness.plain_data import decode, encode
from tasks.programs.sandbox import protocol
from tasks.programs.sandbox.run_program import define, program_parts

_OPERATIONS: dict[str, Callable[..., Any]] = {
    ".get": getattr,
    ".set": setattr,
    ".call": lambda function, *args, **kwargs: function(*args, **kwargs),
}
"""What tests may do with an object that is no plain data. The names are those of no function."""


def serve_programs(requests: int, replies: int, shared: bool) -> None:
    """Answer the calls of one program after another from the pipe `requests` until it closes.

    `shared`: among several programs. Such a process ends where the memory is used up, which may not be due to the
    program: it is then run in a process of its own.
    """
    candidate: Candidate | None = None
    sys.set_int_max_str_digits(0)  # results are sent as decimals, and data sets are older than the limit
    while True:
        kind, request = protocol.read_frame(requests)
        if kind == wire.PROGRAM:
            candidate = None  # frees the memory of the one before
            _clear_caches()
            candidate = Candidate(request)
        elif candidate is not None:
            reply = candidate.reply(request)
            if shared and candidate.out_of_memory:
                os._exit(1)
            protocol.write_frame(replies, wire.REPLY, reply)


class Candidate:
    """A program under test; `payload`: JSON of the arguments of `program_parts`."""

    def __init__(self, payload: bytes) -> None:
        self.out_of_memory = False
        self._kept: list[Any] = []  # objects that are no plain data, which the tests may give back
        self._namespace: dict[str, Any] = {"__name__": "candidate"}
        self._failure: BaseException | None = None
        try:
            define(self._namespace, program_parts(*json.loads(payload)))
        except BaseException as error:  # noqa: BLE001 (a program may raise anything, SystemExit too)
            self._failure = error

    def reply(self, request: bytes) -> bytes:
        """JSON ["ok", what the call returned] or ["error", the name of the exception's class and its message]."""
        try:
            if self._failure is not None:
                raise self._failure
            name, args, kwargs = decode(json.loads(request), self._kept.__getitem__)
            function = _OPERATIONS.get(name) or self._namespace[name]
            return json.dumps(["ok", encode(function(*args, **kwargs), self._keep)]).encode()
        except BaseException as error:  # noqa: BLE001
            self.out_of_memory |= isinstance(error, MemoryError)
            return json.dumps(["error", [type(error).__name__, _message(error)]]).encode()

    def _keep(self, value: Any) -> int:
        self._kept.append(value)
        return len(self._kept) - 1


def _clear_caches() -> None:
    """Empty what modules keep of earlier programs: a pattern or type that is there is not checked again."""
    re.purge()
    for clear in vars(typing)["_cleanups"]:
        clear()


def _message(error: BaseException) -> str | None:
    """The text that an exception was raised with; None without a single one."""
    message = error.args[0] if len(error.args) == 1 else None
    return message if type(message) is str else None
