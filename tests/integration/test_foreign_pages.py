"""Law: no page that the user's browser shows can change, read or frame what Graft's Prefect server has, but its own."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import pytest

from flows.prefect_runs.temporary_server import TemporaryServer
from tests.support.browser import Page, browser, needed
from tests.support.foreign_pages import OF_THIS_MACHINE, PAGES, Target, accepted, prefect_target

pytestmark = pytest.mark.slow

NAME = "attacker.example"
"""Points at 127.0.0.1, as the name of an attacker does who rebinds it."""


class Prefect(NamedTuple):
    """Graft's server with a deployment on it. `url` is without a path."""

    url: str
    target: Target
    port: int

    @property
    def deployment(self) -> str:
        return self.url + self.target.changes[0][1]


@pytest.fixture(scope="module")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prefect]:
    server = TemporaryServer(tmp_path_factory.mktemp("prefect"), part="all")
    with server as api:
        url = api.removesuffix("/api")
        yield Prefect(url, prefect_target(url), server.port)


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The user's browser."""
    options = (f"--host-resolver-rules=MAP {NAME} 127.0.0.1", "--disable-site-isolation-trials")  # frames stay inside
    with browser(tmp_path_factory.mktemp("profile"), *options) as page:
        yield page


class Attacker(BaseHTTPRequestHandler):
    """Serves one empty page, and below /frame one that shows the address after `?`."""

    def do_GET(self) -> None:
        address = self.path.partition("?")[2]
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(f"<p>attack</p>{f'<iframe src={address}></iframe>' if address else ''}".encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def attacker() -> Iterator[str]:
    """The address of a page on another port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Attacker) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{NAME}:{server.server_address[1]}/"
        server.shutdown()


def attacks(prefect: str, deployment: str) -> dict[str, str]:
    """Name → a JavaScript expression: the text that the page got, or the name of the error."""

    def fetched(address: str, **options: object) -> str:
        return f"fetch({json.dumps(address)}, {json.dumps(options)}).then(r => r.ok ? r.text() : '').catch(e => '')"

    body = json.dumps({"description": "changed", "name": "started", "entrypoint": "attacker.py:flow"})
    typed = {"Content-Type": "application/json"}
    socket = prefect.replace("http", "ws") + "/api/events/out"
    return {
        "patch": fetched(deployment, method="PATCH", headers=typed, body=body),
        "run": fetched(f"{deployment}/create_flow_run", method="POST", headers=typed, body=body),
        "simple run": fetched(f"{deployment}/create_flow_run", method="POST", mode="no-cors", body=body),
        "pause": fetched(f"{deployment}/pause_deployment", method="POST", mode="no-cors"),
        "beacon": f"'' + (navigator.sendBeacon({json.dumps(deployment + '/pause_deployment')}), '')",
        "form": f"""new Promise(done => {{
            const frame = Object.assign(document.createElement('iframe'), {{name: 'f', onload: () => done('')}});
            const form = Object.assign(document.createElement('form'),
                {{method: 'POST', target: 'f', action: {json.dumps(deployment + "/pause_deployment")}}});
            document.body.append(frame, form); form.submit(); setTimeout(() => done(''), 3000) }})""",
        "read": fetched(deployment),
        "delete": fetched(deployment, method="DELETE"),
        "socket": f"""new Promise(done => {{ const s = new WebSocket({json.dumps(socket)});
            s.onopen = () => done('open'); s.onerror = () => done('') }})""",
    }


@needed
@pytest.mark.parametrize("rebound", [False, True])
def test_a_foreign_page_gets_nothing_and_changes_nothing(prefect: Prefect, victim: Page, rebound: bool) -> None:
    """`rebound`: its name is that of Graft's server by now, at the same port."""
    before = prefect.target.state()
    with attacker() as address:
        own = f"http://{NAME}:{prefect.port}"
        victim.open(f"{own}/runs" if rebound else address)
        assert NAME in victim.value("location.href")
        there = own if rebound else prefect.url
        for name, attack in attacks(there, prefect.deployment.replace(prefect.url, there)).items():
            assert victim.value(attack) == "", name
            assert prefect.target.state() == before, name


@needed
def test_a_foreign_page_cannot_show_it_in_a_frame(prefect: Prefect, victim: Page) -> None:
    with attacker() as address:
        victim.open(f"{address}frame?{prefect.url}/runs")
        assert victim.inside("location.href") == "chrome-error://chromewebdata/"
        victim.open(f"{address}frame?{address}")
        assert victim.inside("document.body.innerText") == "attack"


@needed
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_its_own_pages_work_by_each_name_of_the_loopback(prefect: Prefect, victim: Page, name: str) -> None:
    victim.open(f"http://{name}:{prefect.port}/deployments")
    victim.wait_for("scheduled")


def test_neither_does_any_request_that_such_a_page_can_send(prefect: Prefect) -> None:
    assert accepted(prefect.url, (*PAGES, *OF_THIS_MACHINE), prefect_target) == []
