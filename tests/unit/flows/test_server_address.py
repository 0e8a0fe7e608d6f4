"""A setting of Prefect that is wrong, or what answers at PREFECT_API_URL, is told in one line before a run begins."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.prefect_runs import server_address
from flows.prefect_runs.crashed_runs import mark_crashed
from tasks.errors import GraftError
from tasks.params.machine import Tracking
from tests.support.stage_params import REPOSITORY


@contextmanager
def server(begin: bytes, more: bytes = b"", pause: float = 0.0) -> Iterator[str]:
    """The address of one whose answers begin so, and go on for ever with `more`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(begin)
                while more:
                    self.wfile.write(more)
                    time.sleep(pause)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}/api"
        http.shutdown()


@pytest.mark.parametrize(("begin", "more", "pause", "why"), [
    (b"[0", b",0" * 10_000, 0.0, "is no Prefect server: its answer has no end; start that server, or unset"),
    (b"[0", b",0", 0.02, "is no Prefect server: its answer has no end; start that server, or unset"),
    (b"[" * 100_000, b"", 0.0, "is no Prefect server; start that server, or unset"),
    (b"<html>", b"", 0.0, "is no Prefect server; start that server, or unset"),
    (b'{"detail": "Not Found"}', b"", 0.0, "is no Prefect server; start that server, or unset"),
])  # fmt: skip
def test_what_is_no_prefect_server_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: bytes, more: bytes, pause: float, why: str
) -> None:
    monkeypatch.setattr(server_address, "LIMIT", 1.0)
    began = time.monotonic()
    with (
        server(begin, more, pause) as url,
        temporary_settings({PREFECT_API_URL: url}),
        pytest.raises(GraftError, match=f"^prefect: what answers at {url} {why}") as told,
    ):
        mark_crashed(tmp_path, Tracking(tracker="mlflow", uri="", experiment="none"))
    assert "\n" not in str(told.value)
    assert time.monotonic() - began < 5


LOUD = 'active = "a"\n[profiles.a]\nPREFECT_LOGGING_LEVEL = "LOUD"'
SETTINGS = [
    (
        "ui",
        "PREFECT_SERVER_API_PORT=no",
        "",
        "PREFECT_SERVER_API_PORT: should be a valid integer, not 'no'; correct it, or",
    ),
    ("serve", "PREFECT_API_URL=8", "", "PREFECT_API_URL: should be an address like http://127.0.0.1:4200/api, not '8'"),
    ("serve", "PREFECT_HOME=.", "[profiles", "profiles.toml: no TOML: Expected ']' at the end of a table declaration"),
    (
        "serve",
        "PREFECT_HOME=.",
        LOUD,
        "PREFECT_LOGGING_LEVEL, in profiles.toml: should be 'DEBUG', 'INFO', 'WARNING', ",
    ),
]
"""Command, variable, profiles, and the line."""


@pytest.mark.slow
def test_a_setting_that_prefect_refuses_is_one_line_with_variable_or_file_and_value(tmp_path: Path) -> None:
    started = []
    for number, (command, variable, profiles, told) in enumerate(SETTINGS):
        root = tmp_path / str(number)
        root.mkdir()
        for file, text in (("params.yaml", ""), ("dvc.yaml", ""), ("profiles.toml", profiles)):
            (root / file).write_text(text)
        name, _, value = variable.partition("=")
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), name: value}
        asked = [sys.executable, "-m", "flows.cli.main", command]
        started.append((told, subprocess.Popen(asked, cwd=root, env=environment, stderr=subprocess.PIPE, text=True)))
    for told, process in started:
        _, error = process.communicate(timeout=120)
        assert error.startswith(f"graft: {told}"), error
        assert (error.count("\n"), process.returncode) == (1, 2), error
