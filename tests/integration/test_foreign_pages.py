"""Law: no page that the user's browser shows can change, read or frame what Graft's Prefect server has, but its own."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from flows.prefect_runs.temporary_server import TemporaryServer
from tests.support.browser import Page, needed
from tests.support.foreign_pages import OF_THIS_MACHINE, PAGES, accepted, prefect_target

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of Graft's server, without a path."""
    with TemporaryServer(tmp_path_factory.mktemp("prefect"), part="all") as api:
        yield api.removesuffix("/api")


class Framing(BaseHTTPRequestHandler):
    """A page that shows the address after `?` in a frame."""

    def do_GET(self) -> None:
        address = self.path.partition("?")[2]
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(f"<p>attack</p>{f'<iframe src={address}></iframe>' if address else ''}".encode())

    def log_message(self, *_: object) -> None:
        pass


def test_no_request_that_a_foreign_page_can_send_changes_or_reads_anything(prefect: str) -> None:
    assert accepted(prefect, (*PAGES, *OF_THIS_MACHINE), prefect_target) == []


@needed
def test_a_foreign_page_cannot_show_it_in_a_frame(prefect: str, page: Page) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Framing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        page.open(f"{address}?{prefect}/runs")
        assert page.inside("location.href") == "chrome-error://chromewebdata/"
        page.open(f"{address}?{address}")
        assert page.inside("document.body.innerText") == "attack"
        server.shutdown()


@needed
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_its_own_pages_work_by_each_name_of_the_loopback(prefect: str, page: Page, name: str) -> None:
    prefect_target(prefect)  # a deployment
    page.open(f"{prefect.replace('127.0.0.1', name)}/deployments")
    page.wait_for("scheduled")
