"""The deployment of prefect.yaml on a real server: its schedule fires, real workers run it, one of them is stopped."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from flows.prefect_runs.crashed_runs import CRASH_MESSAGE
from tasks.params.file import override
from tests.support import tiny_project
from tests.support.servers import PATIENCE, Servers
from tests.support.tiny_project import ADDRESSES, ran

pytestmark = pytest.mark.nightly
PREFECT = str(Path(sys.executable).with_name("prefect"))
POOL = "graft"
NOTHING_NEW = "nothing new since "
DONE = "the first scheduled run here. Promoted: as ever"
STOPPED_AT, KILLED_AT = "update@1", "evaluate@after"


class Scheduled(NamedTuple):
    """A project whose deployment was run because its schedule said so, until nothing was new any more.

    The first worker was stopped in the middle of a stage, the second one was killed, the third one was not.
    """

    servers: Servers
    root: Path
    runs: list[dict[str, Any]]
    computed: list[str]


@pytest.fixture(scope="module")
def scheduled(on_sqlite: Servers, tmp_path_factory: pytest.TempPathFactory) -> Scheduled:
    servers = on_sqlite
    root = tiny_project.make(tmp_path_factory.mktemp("scheduled") / "project")
    api = f"{servers.prefect.url}/api"
    recipe = (tiny_project.REPOSITORY / "prefect.yaml").read_text()
    assert 'cron: "0 3 * * *"\n        timezone: UTC' in recipe
    sooner = re.sub(r'cron: "0 3 \* \* \*"\n +timezone: UTC', "interval: 20", recipe)
    (root / "prefect.yaml").write_text(sooner)  # each night is too late for a test
    override(root / "params.yaml", [f"machine.tracking.uri={servers.mlflow.url}"])
    told = tiny_project.run(root, PREFECT, "work-pool", "create", "--type", "process", POOL, PREFECT_API_URL=api)
    assert f"Created work pool '{POOL}'" in told.stdout
    told = tiny_project.run(root, PREFECT, "--no-prompt", "deploy", "--all", PREFECT_API_URL=api)
    assert "Deployment 'scheduled/nightly' successfully created" in told.stdout
    with worker(root, api, TINY_HANG=STOPPED_AT):
        wait_until(lambda: STOPPED_AT in begun(root), root)
    with worker(root, api, signal.SIGKILL, TINY_HANG=KILLED_AT, TINY_SECONDS="5"):
        wait_until(lambda: KILLED_AT in begun(root), root)
    with worker(root, api):
        wait_until(lambda: any(message(run).startswith(NOTHING_NEW) for run in ended(api)), root)
    return Scheduled(servers, root, ended(api), ran(root))


@contextmanager
def worker(root: Path, api: str, stop: signal.Signals = signal.SIGTERM, **more: str) -> Iterator[None]:
    """At work until the block ends; then stopped as systemd would stop it, or killed alone.

    It runs one flow run at a time, because one that is still starting when its worker is killed crashes at its first
    line of log: Rich ends the process where nobody reads.
    """
    log = log_of(root)
    with log.open("ab") as stream:
        process = subprocess.Popen(
            [PREFECT, "worker", "start", "--pool", POOL, "--type", "process", "--limit", "1"],
            cwd=root.parent,  # not the project: the deployment says where that is
            env=tiny_project.environment(PREFECT_API_URL=api, **more),
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield
        process.send_signal(stop)
        assert process.wait(PATIENCE) == (-stop if stop == signal.SIGKILL else 0), log.read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_until(done: Callable[[], bool], root: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, log_of(root).read_text()
        time.sleep(0.5)


def ended(api: str) -> list[dict[str, Any]]:
    """The deployment's runs that are over."""
    chosen = {"deployments": {"name": {"any_": ["nightly"]}}, "sort": "EXPECTED_START_TIME_ASC"}
    found = httpx.post(f"{api}/flow_runs/filter", json=chosen, timeout=60).raise_for_status().json()
    return [run for run in found if run["state_type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")]


def begun(root: Path) -> list[str]:
    """The stages that were begun so far."""
    note = root / ".graft" / "ran.log"
    return note.read_text().split() if note.exists() else []


def log_of(root: Path) -> Path:
    return root.with_name("worker.log")


def message(run: dict[str, Any]) -> str:
    return str(run["state"]["message"])


def test_the_schedule_fires_and_the_worker_does_the_job_once(scheduled: Scheduled) -> None:
    assert all(run["auto_scheduled"] for run in scheduled.runs)
    told = [message(run) for run in scheduled.runs if run["state_type"] == "COMPLETED"]
    assert told.count(DONE) == 1
    assert all(line.startswith((DONE, NOTHING_NEW, "skipped: ")) for line in told)
    assert (scheduled.root / "run" / "page.html").read_text() == "a page"


def test_a_worker_that_is_stopped_loses_no_stage_and_its_run_is_marked(scheduled: Scheduled) -> None:
    first, *others = scheduled.runs
    assert (first["state_type"], message(first)) == ("CRASHED", CRASH_MESSAGE)
    assert "CRASHED" not in [run["state_type"] for run in others]
    at = ADDRESSES.index(STOPPED_AT)
    assert scheduled.computed == [*ADDRESSES[: at + 1], *ADDRESSES[at:]]


def test_the_run_of_a_worker_that_is_killed_ends_well_though_nobody_reads_its_output(scheduled: Scheduled) -> None:
    second = scheduled.runs[1]
    assert (second["state_type"], message(second)) == ("COMPLETED", DONE)
    assert DONE in (scheduled.root / ".graft" / "history.jsonl").read_text()
