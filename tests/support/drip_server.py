"""A server on loopback that sends an answer a byte at a time, so that no wait for the next packet is ever long."""

import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import parse_headers


@contextmanager
def drip_server(answer: bytes, pause: float, at_once: int = 0) -> Iterator[str]:
    """Its address. It sends the first `at_once` bytes of the answer together."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            # Read all of it: a socket that is closed before resets the connection, and the answer may be lost.
            headers = parse_headers(self.rfile) if self.rfile.readline() else {}
            self.rfile.read(int(headers.get("Content-Length", 0)))
            with suppress(OSError):
                self.request.sendall(answer[:at_once])
                for byte in answer[at_once:]:
                    time.sleep(pause)
                    self.request.sendall(bytes([byte]))

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
ANSWERS = (
    (HEAD + b"Content-Length: 1000\r\n\r\n" + b" " * 1000, 0),
    (HEAD + b"Content-Length: 1000\r\n\r\n" + b" " * 1000, len(HEAD) + 24),
    (HEAD + b"\r\n" + b" " * 1000, len(HEAD) + 2),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 1000, len(HEAD) + 30),
)
"""Answers that last long, and how many bytes of them come at once: none, or the headers."""

DEEP = b"[" * 100_000 + b"]" * 100_000
"""JSON that Python's parser cannot read."""


def whole(content: bytes) -> tuple[bytes, int]:
    """An answer that is sent at once."""
    answer = HEAD + b"Content-Length: %d\r\n\r\n" % len(content) + content
    return answer, len(answer)
