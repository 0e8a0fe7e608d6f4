"""Transient errors of a hub: responses of a real server, and no response."""

import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx
import pytest
from huggingface_hub.errors import OfflineModeIsEnabled

from tasks.errors import GraftError, TransientError
from tasks.model.checkpoints.load_errors import is_transient, translate_errors


class StatusHandler(BaseHTTPRequestHandler):
    """The status that the path names."""

    def do_GET(self) -> None:
        self.send_response(int(self.path[1:]))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), StatusHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def wrapped(url: str) -> OSError:
    """A network error as transformers and huggingface_hub raise it."""
    with pytest.raises(httpx.HTTPError) as caught:
        httpx.get(url, timeout=0.5).raise_for_status()
    missing = FileNotFoundError("cannot find the requested files in the local cache")
    raised = OSError("We couldn't connect")
    missing.__cause__, raised.__cause__ = caught.value, missing
    return raised


def test_server_errors_and_429_are_transient_other_errors_are_not(url: str) -> None:
    for status, transient in ((503, True), (500, True), (429, True), (404, False), (401, False)):
        assert is_transient(wrapped(f"{url}/{status}")) is transient, status
    assert not is_transient(OSError("no such folder"))
    assert not is_transient(OfflineModeIsEnabled("HF_HUB_OFFLINE=1"))


def test_no_response_is_transient() -> None:
    with socket.socket() as listener:  # accepts the connection and does not respond
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert is_transient(wrapped(f"http://127.0.0.1:{port}"))
    assert is_transient(wrapped(f"http://127.0.0.1:{port}"))  # no listener


def test_a_stage_stops_with_an_error_of_that_kind(url: str) -> None:
    later = r"^policy.base: problem \(We couldn't connect\); try again later"
    with pytest.raises(TransientError, match=later), translate_errors("policy.base: problem", "fix it"):
        raise wrapped(f"{url}/503")
    now = r"\(We couldn't connect\); fix it$"
    with pytest.raises(GraftError, match=now) as raised, translate_errors("problem", "fix it"):
        raise wrapped(f"{url}/404")
    assert not isinstance(raised.value, TransientError)
