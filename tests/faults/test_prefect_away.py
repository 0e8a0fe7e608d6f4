"""Prefect is there to look at: without it there is less history, and never less of a result.

A run that cannot begin says so; one that has begun goes on to its end, with a line about what Prefect does not know.
"""

import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from flows.prefect_runs.server_address import REMEDY
from flows.prefect_runs.temporary_server import TemporaryServer
from tests.support.aftermath import Bytes, bytes_of, overwrite, punch_a_hole
from tests.support.flow_runs import temporary_servers
from tests.support.tiers import nightly_but_first
from tests.support.tiny_project import ADDRESSES, begin, graft, ran, run

pytestmark = pytest.mark.slow

SHORT = {"PREFECT_CLIENT_MAX_RETRIES": "1"}
"""So that the tests need not wait as long as a run does."""


class Broken(BaseHTTPRequestHandler):
    """A server that says only that it is broken."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def broken_server(port: int = 0) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", port), Broken) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/api"
        server.shutdown()


@pytest.mark.parametrize(("mode", "why"), nightly_but_first([("gone", "no answer"), ("broken", "status 500")]))
def test_a_server_that_goes_away_stops_no_run(
    fresh: Path, tmp_path: Path, undisturbed: Bytes, mode: str, why: str
) -> None:
    server = TemporaryServer(tmp_path / "prefect")
    with server as url:
        process = begin(fresh, "evaluate@before", "retrain", PREFECT_API_URL=url, TINY_SECONDS="2", **SHORT)
        server._process.kill()
        server._process.wait()
        with broken_server(server.port) if mode == "broken" else nullcontext():
            printed, told = process.communicate(timeout=400)
    assert process.returncode == 0
    assert [line.split()[:2] for line in printed.splitlines()[:-1]] == [[address, "ran"] for address in ADDRESSES]
    assert printed.splitlines()[-1].startswith("report:")
    summary, ending = told.splitlines()
    assert summary == f"warning: prefect: no summary of this run there ({why})"
    assert ending == (
        f"warning: prefect: {why} from {url}, which does not show how this run ended; nothing else is lost"
    )
    assert bytes_of(fresh) == undisturbed


def test_a_server_that_is_broken_from_the_start_is_named(fresh: Path) -> None:
    with broken_server() as url:
        told = graft(fresh, "retrain", code=2, PREFECT_API_URL=url, **SHORT)
    assert told.stderr == f"graft: prefect: status 500 from {url}; {REMEDY}\n"
    assert ran(fresh) == []


OWN_SERVER_KILLED = """
from pathlib import Path

from flows.process import settings
from flows.process.exit_codes import exit_code

settings.set_environment()
settings.set_prefect_home(Path.cwd())

from httpx import ConnectError

from flows.run_session import RunSession
from flows.dvc_stages.pipeline import DvcPipeline
from tasks.params.file import load_params


def run():
    session = RunSession(DvcPipeline(Path.cwd()), load_params(Path("params.yaml")), print)
    with session.connect():
        raise ConnectError("killed")


raise SystemExit(exit_code(run, debug=False))
"""


def test_a_server_of_its_own_that_goes_before_the_first_stage_is_no_setting_to_correct(fresh: Path) -> None:
    told = run(fresh, sys.executable, "-c", OWN_SERVER_KILLED, code=2).stderr
    where = fresh / ".graft" / "prefect"
    assert told == f"graft: prefect: no answer from its temporary server ({where}); run it again\n"


@pytest.mark.parametrize("harm", nightly_but_first([punch_a_hole, overwrite]))
def test_a_damaged_database_is_set_aside_and_a_killed_server_started_again(
    fresh: Path, harm: Callable[[Path], None], prefect_database: bytes, undisturbed: Bytes
) -> None:
    database = fresh / ".graft" / "prefect" / "prefect.db"
    database.parent.mkdir(parents=True)
    database.write_bytes(prefect_database)
    harm(database)
    process = begin(fresh, "reward@1", "retrain", TINY_SECONDS="2")
    (server,) = temporary_servers(process.pid)
    server.kill()
    _, told = process.communicate(timeout=400)
    assert process.returncode == 0
    assert told == f"warning: {database}: damaged; set aside as prefect.db.damaged\n"
    assert bytes_of(fresh) == undisturbed
    with sqlite3.connect(database) as found:
        assert found.execute("select state_type from flow_run").fetchall() == [("COMPLETED",)]


@pytest.fixture(scope="module")
def prefect_database(prefect_url: str, prefect_home: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A sound one."""
    assert prefect_url  # the server has made it
    copy = tmp_path_factory.mktemp("copy") / "prefect.db"
    with sqlite3.connect(prefect_home / "prefect.db") as there, sqlite3.connect(copy) as here:
        there.backup(here)
    return copy.read_bytes()
