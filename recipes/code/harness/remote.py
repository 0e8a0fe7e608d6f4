"""Calls of a program under test by its tests: what it sends back is plain data or stays with it.

Standard library only.
"""

import builtins
import json
from collections.abc import Callable
from typing import Any, NoReturn

from recipes.code.harness import wire
from recipes.code.harness.plain_data import decode, encode
from tasks.programs.sandbox import protocol

LARGEST = 1 << 22
"""Bytes of a result; more are a wrong result."""

ENDS_ITERATION = (StopIteration, StopAsyncIteration)
"""Exceptions that a test's own loop takes for its end: with one of them `all(map(f, inputs))` would be true."""


class CandidateDied(BaseException):
    """The program under test has ended. No `except Exception` of a test catches it."""


class CandidateError(Exception):
    """The program under test raised an exception that is not built in, or returned no plain data."""


class RemoteProgram:
    """A program under test, in another process: pipes for requests and replies.

    `died`: it has ended before the tests. `largest_reply`: bytes of its longest reply.
    """

    def __init__(self, requests: int, replies: int) -> None:
        self._requests, self._replies = requests, replies
        self.died = False
        self.largest_reply = 0

    def start(self, payload: bytes) -> None:
        """Send the program. Raises CandidateDied."""
        self._send(wire.PROGRAM, payload)

    def function(self, name: str) -> Callable[..., Any]:
        """Its function of that name, by calls."""
        return lambda *args, **kwargs: self.call(name, *args, **kwargs)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """What the function returned. Raises what it raised, if that is a built-in exception; CandidateDied."""
        request = json.dumps(encode([name, list(args), kwargs], _number_of)).encode()
        self._send(wire.CALL, request)
        reply = self._receive()
        try:
            status, data = json.loads(reply)
            value = decode(data, lambda number: RemoteObject(self, number)) if status == "ok" else None
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise CandidateError("its reply is no plain data") from None
        if status != "ok":
            _raise(data)
        return value

    def _send(self, kind: bytes, payload: bytes) -> None:
        try:
            protocol.write_frame(self._requests, kind, payload)
        except OSError:
            self._die()

    def _receive(self) -> bytes:
        try:
            _, reply = protocol.read_frame(self._replies, LARGEST)
        except (EOFError, OSError, MemoryError):  # after the last, where a reply ends is unknown
            self._die()
        self.largest_reply = max(self.largest_reply, len(reply))
        return reply

    def _die(self) -> NoReturn:
        self.died = True
        raise CandidateDied from None


class RemoteObject:
    """An object that stays with the program under test. Tests may give it back, call it, and read or set attributes.

    It equals nothing else: comparisons, truth and arithmetic are those of any object here.
    """

    __slots__ = ("__number", "__program")  # mangled names, so that they hide none of the object's own

    def __init__(self, program: RemoteProgram, number: int) -> None:
        object.__setattr__(self, "_RemoteObject__program", program)
        object.__setattr__(self, "_RemoteObject__number", number)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.__program.call(".get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__program.call(".set", self, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__program.call(".call", self, *args, **kwargs)


def _number_of(value: Any) -> int:
    """The number of an object of the program. Raises TypeError for other values that are no plain data."""
    if type(value) is RemoteObject:
        return object.__getattribute__(value, "_RemoteObject__number")  # type: ignore[no-any-return]
    raise TypeError(f"a {type(value).__name__} cannot be sent to the program under test")


def _raise(data: Any) -> NoReturn:
    """Raise the exception that the program reports: the name of its class, and a message or None."""
    match data:
        case [str(name), str() | None as message]:
            kind = getattr(builtins, name, None)
            if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, ENDS_ITERATION):
                raise kind() if message is None else kind(message)
            raise CandidateError(name)
    raise CandidateError("its reply is no exception")
