"""JSON over HTTP to one server, from several threads at a time. Every fault is an error of one line."""

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from tasks.errors import GraftError, TransientError
from tasks.redaction import redacted

KEY = "VLLM_API_KEY"
"""Environment variable with the key of the server; vLLM itself reads it, too."""

BUSY = (408, 429)
"""Statuses of a server, or of what is in front of it, that has too much to do."""

LONGEST = 200
"""Characters of a server's own message in an error."""


class Refusal(GraftError):
    """The server refused a request: a status from 400 to 499."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class JsonClient:
    """Requests to a server below `address`, http(s)://HOST:PORT/PATH, each of which may take `seconds`."""

    def __init__(self, address: str, seconds: float) -> None:
        self.address = address.rstrip("/")
        parts = urlsplit(self.address)
        connection = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._path, self._host = parts.path, parts.hostname or ""
        self._connect: Callable[[], HTTPConnection] = partial(connection, self._host, parts.port, timeout=seconds)
        self._seconds = seconds
        self._open: set[socket.socket] = set()
        self._aborted = False
        self._lock = threading.Lock()

    def get(self, path: str) -> Any:
        """The answer to GET; `path` begins with a slash, with two where it is not below the address's own path."""
        return self._request("GET", path, None)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """The answer to POST; None where it is no JSON."""
        return self._request("POST", path, body)

    def abort(self) -> None:
        """End all requests in progress, and those to come, with an error."""
        with self._lock:
            self._aborted = True
            for sock in self._open:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def _end_of(self, sock: socket.socket, late: threading.Event) -> Iterator[None]:
        """The block ends with an error on `abort` and, with `late` set, after the seconds of a request.

        The timeout of a socket limits the wait for each packet, not that for all of them.
        """

        def end() -> None:
            late.set()
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(self._seconds, end)
        timer.start()
        with self._lock:
            self._open.add(sock)
        try:
            yield
        finally:
            timer.cancel()
            with self._lock:
                self._open.discard(sock)

    def _request(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        """Raises Refusal for a status 4xx, TransientError for no answer, BUSY and any other status but 2xx."""
        url = path[1:] if path.startswith("//") else self._path + path
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get(KEY):
            headers["Authorization"] = f"Bearer {key}"
        connection = self._connect()
        late = threading.Event()
        try:
            connection.connect()
            with self._end_of(connection.sock, late):
                if self._aborted:
                    raise OSError("ended")
                connection.request(method, url, None if body is None else json.dumps(body), headers)
                response = connection.getresponse()
                status, content = response.status, response.read()
                if late.is_set():
                    raise OSError("ended")
        except (OSError, HTTPException) as error:
            reason = str(error) or type(error).__name__
            if late.is_set():
                reason = f"no complete answer within {self._seconds:g} s"
            raise TransientError(
                f"sampler: no answer from {self.address} ({reason}); start that server again, or see sampler.seconds"
            ) from error
        finally:
            connection.close()
        if 200 <= status < 300:
            return _json(content)
        message = f"sampler: {self.address}{path} answers {status} ({_message(content)})"
        if 400 <= status < 500 and status not in BUSY:
            raise Refusal(status, message)
        raise TransientError(f"{message}; see the log of that server, and start it again")


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):  # lists within lists, 100,000 deep
        return None


def _message(content: bytes) -> str:
    """The server's own words, shortened; a server may repeat the key that it refuses."""
    answer = _json(content)
    error = answer.get("error", answer) if isinstance(answer, dict) else None
    text = error.get("message") if isinstance(error, dict) else None
    words = text if isinstance(text, str) else content.decode("utf-8", "replace")
    return redacted(" ".join(words.split()))[:LONGEST] or "no message"
