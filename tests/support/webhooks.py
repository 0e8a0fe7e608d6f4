"""A web server on loopback that keeps what is posted to it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple


class Post(NamedTuple):
    """What came, and when."""

    path: str
    body: dict[str, Any]
    when: datetime


class Webhook(NamedTuple):
    """`posted`: the first to come first."""

    port: int
    posted: list[Post]

    def address(self, path: str = "") -> str:
        """As Apprise takes it."""
        return f"json://127.0.0.1:{self.port}/{path}"

    def titles(self) -> list[str]:
        """Those of Apprise's messages, without the name of the project."""
        return [body["title"].partition(": ")[2] for _, body, _ in self.posted]


@contextmanager
def webhook(status: int = 200, now: Callable[[], datetime] = datetime.now) -> Iterator[Webhook]:
    """It answers with `status`. `now`: its clock."""
    posted: list[Post] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            posted.append(Post(self.path, body, now()))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield Webhook(server.server_port, posted)
        finally:
            server.shutdown()
