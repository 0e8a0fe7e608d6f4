"""The states of a workspace's runs in Prefect and MLflow."""

import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

from flows.prefect_runs.crashed_runs import workspace_tag
from tasks.tracking.store import store_lock


def flow_runs(api: str, root: Path) -> list[dict[str, Any]]:
    """The first to start first."""
    chosen = {"flow_runs": {"tags": {"all_": [workspace_tag(root)]}}, "sort": "EXPECTED_START_TIME_ASC"}
    found: list[dict[str, Any]] = (
        httpx.post(f"{api}/flow_runs/filter", json=chosen, timeout=60).raise_for_status().json()
    )
    return found


def temporary_servers(pid: int) -> list[psutil.Process]:
    """Graft's own Prefect servers among the children of a process, some of which end at any moment."""
    found = []
    for child in psutil.Process(pid).children():
        with suppress(psutil.NoSuchProcess):
            if "flows.prefect_runs.temporary_server" in child.cmdline():
                found.append(child)
    return found


def wait_until(true: Callable[[], bool], process: "subprocess.Popen[bytes] | None" = None) -> None:
    deadline = time.monotonic() + 280
    while not true():
        assert process is None or process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.2)


def mlflow_states(root: Path) -> list[str]:
    """MLflow's states of the retrainings, the first one first."""
    from mlflow import MlflowClient

    uri = f"sqlite:///{root}/mlflow.db"
    with store_lock(uri):  # a run may be creating the store
        client: Any = MlflowClient(uri)
        found = client.search_runs(["1"], "tags.`prefect.flow_run_id` != ''", order_by=["attributes.start_time"])
    return [run.info.status for run in found]


def states(root: Path, api: str, own_server: bool) -> list[str]:
    if not own_server:
        return [found["state_type"] for found in flow_runs(api, root)]
    query = "select state_type from flow_run order by start_time is null, start_time"
    with sqlite3.connect(root / ".graft" / "prefect" / "prefect.db") as database:
        return [state for (state,) in database.execute(query)]
