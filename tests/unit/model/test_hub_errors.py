"""What a hub's trouble is taken for: by real answers of a real server, and by no answer."""

import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx
import pytest
from huggingface_hub.errors import OfflineModeIsEnabled

from tasks.errors import GraftError, TransientError
from tasks.model.hub_errors import is_transient
from tasks.model.policy import translate_errors


class Answers(BaseHTTPRequestHandler):
    """The status that the path names."""

    def do_GET(self) -> None:
        self.send_response(int(self.path[1:]))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def wrapped(url: str) -> OSError:
    """As transformers and huggingface_hub hand on what the network raised."""
    try:
        try:
            httpx.get(url, timeout=0.5).raise_for_status()
        except httpx.HTTPError as error:
            raise FileNotFoundError("cannot find the requested files in the local cache") from error
    except FileNotFoundError as error:
        told = OSError("We couldn't connect")
        told.__cause__ = error
        return told
    raise AssertionError(url)


@pytest.mark.parametrize(("status", "away"), [(503, True), (500, True), (429, True), (404, False), (401, False)])
def test_an_answer_says_whether_to_try_again(url: str, status: int, away: bool) -> None:
    assert is_transient(wrapped(f"{url}/{status}")) is away


def test_no_answer_may_pass() -> None:
    with socket.socket() as silent:  # takes the connection and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        assert is_transient(wrapped(f"http://127.0.0.1:{port}"))
    assert is_transient(wrapped(f"http://127.0.0.1:{port}"))  # nobody there


def test_what_is_no_network_does_not_pass() -> None:
    assert not is_transient(OSError("no such folder"))
    assert not is_transient(OfflineModeIsEnabled("HF_HUB_OFFLINE=1"))


def test_a_stage_stops_with_an_error_of_that_kind(url: str) -> None:
    with (
        pytest.raises(TransientError, match=r"^policy.base: trouble \(We couldn't connect\); try again later"),
        translate_errors("policy.base: trouble", "mend it"),
    ):
        raise wrapped(f"{url}/503")
    with (
        pytest.raises(GraftError, match=r"\(We couldn't connect\); mend it$") as told,
        translate_errors("trouble", "mend it"),
    ):
        raise wrapped(f"{url}/404")
    assert not isinstance(told.value, TransientError)
