"""What a Prefect server knows of the runs of one workspace, and whether a process is still there."""

from pathlib import Path
from typing import Any

import httpx
import psutil

from flows.crashed import workspace_tag


def flow_runs(api: str, root: Path) -> list[dict[str, Any]]:
    """The first to start first."""
    chosen = {"flow_runs": {"tags": {"all_": [workspace_tag(root)]}}, "sort": "EXPECTED_START_TIME_ASC"}
    found: list[dict[str, Any]] = (
        httpx.post(f"{api}/flow_runs/filter", json=chosen, timeout=60).raise_for_status().json()
    )
    return found


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and not one that only waits to be collected by whoever started it."""
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
