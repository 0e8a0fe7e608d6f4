"""Requests of other people's web pages to the servers that Graft starts: none may change or read anything.

A browser sends such a page's requests to 127.0.0.1 as it does to any other address: simple ones at once, all others
after the server has allowed them (https://fetch.spec.whatwg.org/#http-cors-protocol). A page whose name is pointed at
127.0.0.1 after it was loaded (DNS rebinding) needs no permission, but sends its name as `Host`.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from socket import create_connection
from typing import Any
from uuid import uuid4

import httpx
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from tasks.core.loopback import HOST


@dataclass(frozen=True)
class ForeignPage:
    """A page of another server, by the `Origin` and `Host` of its requests to port `{port}` of this machine."""

    origin: str
    host: str = "127.0.0.1:{port}"

    @property
    def is_rebound(self) -> bool:
        """True if the browser takes the server for the page's own."""
        return self.origin == f"http://{self.host}"


PAGES = (
    ForeignPage("http://attacker.example"),
    ForeignPage("https://attacker.example"),
    ForeignPage("http://attacker.example", "localhost:{port}"),
    ForeignPage("http://attacker.example", "[::1]:{port}"),
    ForeignPage("null"),  # a sandboxed frame, a file, a page of a data: address
    ForeignPage("http://127.0.0.1.attacker.example:{port}"),
    ForeignPage("http://localhost.attacker.example:{port}"),
    ForeignPage("http://attacker.example:{port}", "attacker.example:{port}"),
    ForeignPage("http://10.attacker.example:{port}", "10.attacker.example:{port}"),
    ForeignPage("http://127.0.0.1.attacker.example:{port}", "127.0.0.1.attacker.example:{port}"),
)

OF_THIS_MACHINE = (ForeignPage("http://localhost:8888"), ForeignPage("https://localhost:{port}"))
"""Pages of other programs of this machine, which MLflow's server takes for its own (`is_localhost_origin`)."""

SIMPLE = ("text/plain", "application/x-www-form-urlencoded", "")
"""Types of content that a page may send without asking; "": none."""

Request = tuple[str, str, dict[str, Any] | None]

PATIENCE = 50
"""Attempts of a request to a server that is busy."""

SOCKETS = ("/api/events/in", "/api/events/out", "/api/logs/out")


@dataclass(frozen=True)
class Target:
    """What a server has for a page to change or to read. A request is its method, path and body."""

    changes: tuple[Request, ...]
    read: Request
    state: Callable[[], object]
    sockets: tuple[str, ...] = ()


def prefect_target(url: str) -> Target:
    """A new deployment on a Prefect server."""

    def ask(path: str, body: dict[str, Any]) -> Any:
        return _ask("POST", f"{url}/api{path}", json=body).raise_for_status().json()

    number = ask("/deployments/", {"name": str(uuid4()), "flow_id": ask("/flows/", {"name": "scheduled"})["id"]})["id"]
    place = f"/api/deployments/{number}"

    def state() -> object:
        now = _ask("GET", url + place).json()
        return [now.get(name) for name in ("paused", "description", "entrypoint")], ask("/flow_runs/count", {})

    changes = (
        ("PATCH", place, {"description": "changed", "entrypoint": "attacker.py:flow"}),
        ("POST", f"{place}/create_flow_run", {"name": "started"}),
        ("POST", f"{place}/pause_deployment", None),
        ("POST", f"{place}/resume_deployment", None),
        ("DELETE", place, None),
    )
    return Target(changes, ("POST", "/api/deployments/filter", {}), state, SOCKETS)


def mlflow_target(url: str) -> Target:
    """A new experiment on an MLflow server."""
    place = "/api/2.0/mlflow/experiments"
    name = {"name": str(uuid4())}
    number = _ask("POST", f"{url}{place}/create", json=name).raise_for_status().json()["experiment_id"]

    def state() -> object:
        return _ask("POST", f"{url}{place}/search", json={"max_results": 1000}).raise_for_status().json()

    changes = (
        ("POST", f"{place}/create", {"name": str(uuid4())}),
        ("POST", f"/ajax-{place[1:]}/create", {"name": str(uuid4())}),
        ("POST", f"{place}/delete", {"experiment_id": number}),
    )
    return Target(changes, ("GET", f"{place}/get?experiment_id={number}", None), state)


def accepted(url: str, pages: tuple[ForeignPage, ...], make_target: Callable[[str], Target]) -> list[str]:
    """The requests of `pages` that change the server's state, or whose answer the page may read."""
    port = url.rpartition(":")[2]
    placed = [ForeignPage(page.origin.format(port=port), page.host.format(port=port)) for page in pages]
    return [
        f"{page.origin} to {page.host}: {what}" for page in placed for what in _accepted_of(url, make_target(url), page)
    ]


def _accepted_of(url: str, target: Target, page: ForeignPage) -> Iterator[str]:
    before = target.state()
    for method, path, body in target.changes:
        for content_type in ("application/json", *SIMPLE):
            _send(url, page, method, path, body, content_type)
            after = target.state()
            if after != before:
                yield f"{method} {path} as {content_type or 'nothing'} changed the state"
            before = after
    answer = _send(url, page, *target.read, "application/json")
    if answer is not None and answer.is_success and _may_read(page, answer):
        yield f"{target.read[1]} was read"
    yield from (f"{path} was opened" for path in target.sockets if _opens(url, page, path))


def _send(
    url: str, page: ForeignPage, method: str, path: str, body: dict[str, Any] | None, content_type: str
) -> httpx.Response | None:
    """The answer to the request as a browser sends it for `page`; None if the server does not allow it."""
    headers = {"Host": page.host}
    if not (page.is_rebound and method == "GET"):
        headers["Origin"] = page.origin
    if not page.is_rebound and (method not in ("GET", "POST") or content_type == "application/json"):
        asked = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": "content-type"}
        allowed = _ask("OPTIONS", url + path, headers=headers | asked)
        methods = allowed.headers.get("access-control-allow-methods", "")
        if not (allowed.is_success and _may_read(page, allowed) and (method == "POST" or method in methods)):
            return None
    content = b"" if body is None else json.dumps(body).encode()
    types = {"Content-Type": content_type} if content_type else {}
    return _ask(method, url + path, headers=headers | types, content=content)


def _ask(method: str, url: str, **options: Any) -> httpx.Response:
    """The answer, asked for again as long as the server is busy: SQLite's database is locked now and then."""
    for _ in range(PATIENCE):
        answer = httpx.request(method, url, timeout=60, trust_env=False, **options)
        if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
            break
        time.sleep(0.2)
    return answer


def _may_read(page: ForeignPage, answer: httpx.Response) -> bool:
    return page.is_rebound or answer.headers.get("access-control-allow-origin") in ("*", page.origin)


def _opens(url: str, page: ForeignPage, path: str) -> bool:
    """True if the page gets a web socket, for which browsers ask no permission."""
    address = url.replace("http://", "ws://") + path
    headers = {"Origin": page.origin}
    if page.is_rebound:
        address = address.replace("127.0.0.1", page.host.partition(":")[0])
    there = create_connection((HOST, int(url.rpartition(":")[2])), timeout=60)
    try:
        with connect(address, sock=there, additional_headers=headers, open_timeout=60, proxy=None):
            return True
    except (WebSocketException, OSError):
        return False
