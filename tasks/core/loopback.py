"""Servers on the loopback address: a free port, whether a server answers, and a guard against other people's pages."""

import re
import socket
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

HOST = "127.0.0.1"

_NAMES = r"(?:localhost|127\.0\.0\.1|\[::1\])"
_HOST = re.compile(rf"{_NAMES}(?::(\d{{1,5}}))?")
_ORIGIN = re.compile(rf"http://{_NAMES}(?::(\d{{1,5}}))?")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


def free_port(wanted: int = 0) -> int:
    """`wanted`, or another port if that one is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as uvicorn does
        try:
            probe.bind((HOST, wanted))
        except OSError:
            probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def answers(url: str) -> bool:
    """True if the server answers a request with status 200."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False


def is_own_request(headers: list[tuple[bytes, bytes]]) -> bool:
    """True if a request is addressed to the loopback, and not sent by a page of another server.

    `Host` must be a name of the loopback: a page whose own name an attacker has pointed at 127.0.0.1 (DNS rebinding)
    sends that name. `Origin`, which a browser adds to what a page of another server sends, must be a page at a name of
    the loopback and at the port of `Host`; it is `null` for a page without an address.
    """
    hosts = [_HOST.fullmatch(value.decode("latin-1").lower()) for name, value in headers if name == b"host"]
    if len(hosts) != 1 or hosts[0] is None:
        return False
    origins = [_ORIGIN.fullmatch(value.decode("latin-1").lower()) for name, value in headers if name == b"origin"]
    return all(origin is not None and (origin[1] or "80") == (hosts[0][1] or "80") for origin in origins)


class LoopbackGuard:
    """ASGI middleware: other people's pages can neither use a server on the loopback nor show it inside themselves.

    A server on the loopback is within reach of each page that the user's browser shows.
    """

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass on what `is_own_request` accepts, and answer all else with status 403."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
        elif is_own_request(scope["headers"]):
            await self._application(scope, receive, _without_frames(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": b"refused: from a page of another server\n"})


def _without_frames(send: Send) -> Send:
    """`send` with a header that keeps a response out of frames of other pages, where it could get a reader's clicks."""

    async def send_response(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), (b"x-frame-options", b"SAMEORIGIN")]
        await send(message)

    return send_response
