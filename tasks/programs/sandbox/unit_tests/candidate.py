"""The process of a program under test: it defines its functions and answers calls. Standard library only.

It receives the program, then the names and the arguments of calls, one by one, and sends results as plain data.
It never has the tests: they are in another child (tester.py), which alone compares and reports.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from tasks.programs.sandbox import protocol
from tasks.programs.sandbox.unit_tests.plain_data import decode, encode
from tasks.programs.sandbox.unit_tests.program_parts import define, program_parts

_OPERATIONS: dict[str, Callable[..., Any]] = {
    ".get": getattr,
    ".set": setattr,
    ".call": lambda function, *args, **kwargs: function(*args, **kwargs),
}
"""What tests may do with an object that is no plain data. The names are those of no function."""


def serve_program(requests: int, replies: int) -> None:
    """Answer the calls of a program, the first message from the pipe `requests`, until that closes."""
    sys.set_int_max_str_digits(0)  # results are sent as decimals, and data sets are older than the limit
    candidate = Candidate(protocol.read_frame(requests)[1])
    while True:
        _, request = protocol.read_frame(requests)
        protocol.write_frame(replies, protocol.REPLY, candidate.reply(request))


class Candidate:
    """A program under test; `payload`: JSON of the arguments of `program_parts`."""

    def __init__(self, payload: bytes) -> None:
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
            return json.dumps(["error", [type(error).__name__, _message(error)]]).encode()

    def _keep(self, value: Any) -> int:
        self._kept.append(value)
        return len(self._kept) - 1


def _message(error: BaseException) -> str | None:
    """The text that an exception was raised with; None without a single one."""
    message = error.args[0] if len(error.args) == 1 else None
    return message if type(message) is str else None
