"""The deployment of prefect.yaml on a real server: its schedule fires, a real worker runs it, and it is one project's.

A run that is stopped or killed, whoever started it: tests/faults/test_kills.py, tests/project/test_scheduled_run.py.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from flows.project.new_project import new_project
from flows.scheduling.deployment import project_name
from tests.support import tiny_project
from tests.support.params_file import override
from tests.support.servers import PATIENCE, Servers
from tests.support.tiny_project import ADDRESSES, ran

PREFECT = str(Path(sys.executable).with_name("prefect"))
POOL = "graft"
NOTHING_NEW = "nothing new since "
DONE = "the first scheduled run here. Promoted: as ever"


@pytest.fixture(scope="module")
def api(on_sqlite: Servers, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a server that has the work pool."""
    api = f"{on_sqlite.prefect.url}/api"
    create = ("work-pool", "create", "--type", "process", POOL)
    told = tiny_project.run(tmp_path_factory.getbasetemp(), PREFECT, *create, PREFECT_API_URL=api)
    assert f"Created work pool '{POOL}'" in told.stdout
    return api


def deploy(root: Path, api: str) -> str:
    """The name of the deployment."""
    name = f"nightly-{project_name(root)}"
    told = tiny_project.run(root, PREFECT, "--no-prompt", "deploy", "--all", PREFECT_API_URL=api, COLUMNS="200")
    assert f"Deployment 'scheduled/{name}' successfully created" in told.stdout
    return name


@pytest.mark.slow
def test_two_projects_on_one_server_have_a_deployment_each(api: str, tmp_path: Path) -> None:
    """Also where their folders have one name, with a character that Prefect refuses."""
    folders = {}
    for parent in ("first", "second"):
        (tmp_path / parent).mkdir()
        root = tmp_path / parent / "R&D project"
        new_project(root)
        folders[deploy(root, api)] = str(root)
    chosen = {"deployments": {"name": {"any_": list(folders)}}}
    found = httpx.post(f"{api}/deployments/filter", json=chosen, timeout=60).raise_for_status().json()
    assert len(folders) == 2
    assert {each["name"]: next(iter(each["pull_steps"][0].values()))["directory"] for each in found} == folders


@pytest.mark.nightly
def test_the_schedule_fires_and_the_worker_does_the_job_once(api: str, on_sqlite: Servers, tmp_path: Path) -> None:
    """Until nothing is new any more; it runs one flow run at a time."""
    root = tiny_project.make(tmp_path / "project")
    recipe = (tiny_project.REPOSITORY / "prefect.yaml").read_text()
    assert 'cron: "0 3 * * *"\n        timezone: UTC' in recipe
    sooner = re.sub(r'cron: "0 3 \* \* \*"\n +timezone: UTC', "interval: 20", recipe)
    (root / "prefect.yaml").write_text(sooner)  # each night is too late for a test
    override(root / "params.yaml", [f"machine.tracking.uri={on_sqlite.mlflow.url}"])
    name = deploy(root, api)
    log = tmp_path / "worker.log"
    with log.open("ab") as stream:
        worker = subprocess.Popen(
            [PREFECT, "worker", "start", "--pool", POOL, "--type", "process", "--limit", "1"],
            cwd=tmp_path,  # not the project: the deployment says where that is
            env=tiny_project.environment(PREFECT_API_URL=api),
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + PATIENCE
        while not any(message(run).startswith(NOTHING_NEW) for run in ended(api, name)):
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.5)
        worker.terminate()  # as systemd would
        assert worker.wait(PATIENCE) == 0, log.read_text()
    finally:
        if worker.poll() is None:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
    runs = ended(api, name)
    assert all(run["auto_scheduled"] for run in runs)
    told_by = [message(run) for run in runs if run["state_type"] == "COMPLETED"]
    assert told_by.count(DONE) == 1
    assert all(line.startswith((DONE, NOTHING_NEW, "skipped: ")) for line in told_by)
    assert ran(root) == ADDRESSES
    assert (root / "run" / "page.html").read_text() == "a page"
    assert DONE in (root / ".graft" / "history.jsonl").read_text()


def ended(api: str, name: str) -> list[dict[str, Any]]:
    """The deployment's runs that are over."""
    chosen = {"deployments": {"name": {"any_": [name]}}, "sort": "EXPECTED_START_TIME_ASC"}
    found = httpx.post(f"{api}/flow_runs/filter", json=chosen, timeout=60).raise_for_status().json()
    return [run for run in found if run["state_type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")]


def message(run: dict[str, Any]) -> str:
    return str(run["state"]["message"])
