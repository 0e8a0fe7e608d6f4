"""The guard of servers on the loopback: its law on headers, and what it does with each kind of connection."""

import asyncio
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.process.settings import set_environment
from tasks.core.loopback import LoopbackGuard, answers, is_own_request

NAMES = ("127.0.0.1", "localhost", "LocalHost", "[::1]")
PORTS = st.sampled_from(["", ":80", ":4200", ":65535"])
FOREIGN = (
    *("", "attacker.example", "127.0.0.1.attacker.example", "localhost.attacker.example", "10.attacker.example"),
    *("attacker.localhost", "127.0.0.1@attacker.example", "attacker.example/127.0.0.1", "127.0.0.1\n", "0.0.0.0"),
    *("127.0.0.2", "::1", "[::1", "[::2]", "127.0.0.1:", "localhost:4200x", "x127.0.0.1", "192.168.0.1"),
)


def request(host: str, *origins: str) -> list[tuple[bytes, bytes]]:
    return [(b"host", host.encode()), *((b"origin", origin.encode()) for origin in origins)]


@given(st.sampled_from(NAMES), PORTS)
def test_a_program_of_this_machine_sends_no_origin(name: str, port: str) -> None:
    assert is_own_request(request(name + port))


@given(st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from([":4200", ":65535"]))
def test_the_servers_pages_may_call_it_by_each_name_of_the_loopback(host: str, page: str, port: str) -> None:
    assert is_own_request(request(host + port, f"http://{page}{port}"))


@given(st.sampled_from(FOREIGN), PORTS, st.sampled_from(["", "http://localhost:4200", "http://attacker.example"]))
def test_no_other_host_is_served(name: str, port: str, origin: str) -> None:
    assert not is_own_request(request(name + port, *([origin] if origin else [])))


@given(
    st.sampled_from(NAMES),
    st.sampled_from(
        [
            *("null", "", "file://", "https://127.0.0.1:4200", "http://127.0.0.1:4201", "http://127.0.0.1"),
            *(f"http://{name}:4200" for name in FOREIGN),
            *(f"chrome-extension://{name}" for name in NAMES),
        ]
    ),
)
def test_no_page_of_another_server_is_served(host: str, origin: str) -> None:
    assert not is_own_request(request(f"{host}:4200", origin))


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [*request("localhost"), *request("attacker.example")],
        [*request("attacker.example"), *request("localhost")],
        request("localhost", "http://localhost", "http://attacker.example"),
        request("localhost", "http://attacker.example", "http://localhost"),
        [(b"host", b"\xff\xfe")],
    ],
)
def test_headers_that_are_missing_or_twice_there_are_refused(headers: list[tuple[bytes, bytes]]) -> None:
    assert not is_own_request(headers)


def served(kind: str, headers: list[tuple[bytes, bytes]]) -> tuple[list[str], list[dict[str, Any]]]:
    """The scopes that reach an application behind the guard, and what is sent back."""
    reached: list[str] = []
    sent: list[dict[str, Any]] = []

    async def application(scope: Any, _: Any, send: Any) -> None:
        reached.append(scope["type"])
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})

    async def receive() -> Any:
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(LoopbackGuard(application)({"type": kind, "headers": headers}, receive, send))
    return reached, sent


def test_a_request_of_another_page_never_reaches_the_application() -> None:
    reached, sent = served("http", request("localhost:1", "http://attacker.example"))
    assert reached == []
    assert [message.get("status") for message in sent] == [403, None]
    assert served("websocket", request("attacker.example")) == ([], [{"type": "websocket.close", "code": 1008}])


def test_all_else_does_and_no_other_page_may_show_it() -> None:
    headers = [(b"a", b"b"), (b"x-frame-options", b"SAMEORIGIN")]
    assert served("http", request("localhost:1")) == (
        ["http"],
        [{"type": "http.response.start", "status": 200, "headers": headers}],
    )
    assert served("websocket", request("localhost:1", "http://localhost:1"))[0] == ["websocket"]
    assert served("lifespan", [])[0] == ["lifespan"]


class Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("name", ["http_proxy", "ALL_PROXY"])
def test_the_loopback_is_not_asked_through_a_proxy(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(os, "environ", {name: "http://127.0.0.1:9"})
    set_environment()
    with HTTPServer(("127.0.0.1", 0), Healthy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert answers(f"http://127.0.0.1:{server.server_address[1]}/")
        server.shutdown()
