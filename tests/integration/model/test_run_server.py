"""Stages of a run share a server that can sleep: it starts once, sleeps between them and ends with the run."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import psutil
import pytest

from tasks.model.sampling.vllm.json_client import KEY
from tasks.model.sampling.vllm.server import SLEEP, awake_server, keep_server, server_command, started_server
from tests.support import idle_server
from tests.support.processes import has_ended

Stage = Callable[..., AbstractContextManager[str]]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A stage that samples a base with a server."""
    monkeypatch.setenv(KEY, "")

    def stage(*flags: str, base: str = "/base") -> AbstractContextManager[str]:
        program = [sys.executable, str(idle_server.__file__), str(tmp_path / "pids"), *flags]
        arguments = (program, "float32", base, None, False)
        log = tmp_path / f"{base[1:]}.log"
        return awake_server(server_command(*arguments, port=0), partial(started_server, *arguments, log))

    return stage


def pid(folder: Path) -> int:
    return int((folder / "pids").read_text().split()[0])


def test_it_sleeps_between_stages_and_ends_with_the_run(tmp_path: Path, stage: Stage) -> None:
    with keep_server():
        with stage(SLEEP) as first:
            server = pid(tmp_path)
            assert psutil.Process(server).environ()["VLLM_SERVER_DEV_MODE"] == "1"
        with stage(SLEEP) as second:
            assert (second, pid(tmp_path)) == (first, server)
    assert has_ended(server, 5)
    assert (tmp_path / "base.log").read_text().split() == ["/sleep?level=1", "/wake_up", "/sleep?level=1"]


@pytest.mark.slow
def test_another_base_has_another_server_and_there_is_one_at_a_time(tmp_path: Path, stage: Stage) -> None:
    with keep_server():
        with stage(SLEEP):
            first = pid(tmp_path)
        with stage(SLEEP, base="/other"):
            assert has_ended(first, 0)


@pytest.mark.slow
def test_one_that_died_or_does_not_sleep_or_whose_stage_failed_is_replaced(tmp_path: Path, stage: Stage) -> None:
    with keep_server():
        with stage(SLEEP):
            psutil.Process(pid(tmp_path)).kill()
        with stage(SLEEP, "--deaf"):
            deaf = pid(tmp_path)
        assert has_ended(deaf, 5)
        with pytest.raises(ZeroDivisionError), stage(SLEEP):
            raise ZeroDivisionError
        assert has_ended(pid(tmp_path), 5)


@pytest.mark.slow
def test_without_a_run_or_without_the_flag_it_ends_with_its_stage(tmp_path: Path, stage: Stage) -> None:
    with stage(SLEEP):
        pids = [pid(tmp_path)]
    with keep_server():
        with stage():
            pids.append(pid(tmp_path))
        assert all(has_ended(server, 5) for server in pids)
