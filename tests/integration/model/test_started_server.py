"""A sampling server that a stage starts ends with it, however the stage ends, with all of its processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tasks.core.child_process import CODE
from tasks.core.loopback import answers
from tasks.errors import GraftError
from tasks.model.sampling.vllm.json_client import KEY
from tasks.model.sampling.vllm.server import started_server
from tasks.redaction import redacted
from tests.support import idle_server
from tests.support.processes import has_ended
from tests.support.tiers import nightly_but_first

SOON = 5.0
"""Seconds in which nothing may be left."""

STAGE = """
import sys, time
from pathlib import Path
from tasks.model.sampling.vllm.server import started_server
with started_server(sys.argv[2:], "float32", "/base", 16, False, Path(sys.argv[1])):
    print("it answers", flush=True)
    time.sleep(300)
"""


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The random one, which stays for the process, is forgotten after the test."""
    monkeypatch.setenv(KEY, "")


def command(pids: Path, *more: str) -> list[str]:
    return [sys.executable, str(idle_server.__file__), str(pids), *more]


def command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has ended
        return []


def pids_in(file: Path) -> list[int]:
    return [int(pid) for pid in file.read_text().split()]


@pytest.mark.parametrize("more", [[], pytest.param(["--ignore-term"], marks=pytest.mark.slow)])
def test_it_answers_in_the_block_and_is_gone_after_it(tmp_path: Path, more: list[str]) -> None:
    program, log = command(tmp_path / "pids", *more), tmp_path / "logs" / "log"
    with started_server(program, "float32", "/base", None, False, log) as address:
        assert answers(address.removesuffix("/v1"))
        pids = pids_in(tmp_path / "pids")
    started = time.monotonic()
    assert all(has_ended(pid, SOON) for pid in pids)
    assert not answers(address)
    assert time.monotonic() - started < SOON


@pytest.mark.parametrize("users", ["", "the-users-own-key"])
def test_it_has_a_key_that_is_in_no_command_line_and_in_no_log(
    tmp_path: Path, users: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client reads the same variable, which is tested with the stages."""
    monkeypatch.setenv(KEY, users)
    log = tmp_path / "log"
    with started_server(command(tmp_path / "pids"), "float32", "/base", None, False, log):
        key = os.environ[KEY]
        assert key == users if users else len(key) == 64
        assert all(key not in text for process in psutil.process_iter() for text in command_line(process))
        server = psutil.Process(pids_in(tmp_path / "pids")[0])
        assert server.environ()[KEY] == key
    assert key not in log.read_text()
    assert key not in redacted(f"a server's own words, {key}")


@pytest.mark.slow
@pytest.mark.parametrize("number", nightly_but_first([signal.SIGKILL, signal.SIGINT, signal.SIGTERM]))
@pytest.mark.parametrize("more", [[], ["--ignore-term"]])
def test_it_ends_with_a_stage_that_is_killed(tmp_path: Path, number: signal.Signals, more: list[str]) -> None:
    arguments = [str(tmp_path / "log"), *command(tmp_path / "pids", *more)]
    stage = subprocess.Popen(
        [sys.executable, "-c", STAGE, *arguments],
        cwd=CODE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert stage.stdout is not None
    assert stage.stdout.readline() == "it answers\n"
    pids = pids_in(tmp_path / "pids")
    stage.send_signal(number)
    assert all(has_ended(pid, SOON) for pid in pids)
    stage.wait(20)
    stage.stdout.close()


@pytest.mark.parametrize(("program", "last"), [
    (["sh", "-c", "echo 'no GPU here'; exit 3"], "no GPU here"),
    (["/nowhere/vllm", "serve"], r"FileNotFoundError: .*'/nowhere/vllm'"),
])  # fmt: skip
def test_one_that_does_not_start_is_one_line_with_the_last_of_its_log(
    tmp_path: Path, program: list[str], last: str
) -> None:
    message = rf"^machine\.vllm\.command: {program[0]} ended before it answered: {last}; see {tmp_path}/log$"
    with (
        pytest.raises(GraftError, match=message),
        started_server(program, "float32", "/base", 16, False, tmp_path / "log"),
    ):
        pass
