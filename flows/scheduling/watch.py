"""`graft serve --watch`: a run when problem files have arrived and stood still."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import StateType
from watchfiles import Change, awatch
from watchfiles._rust_notify import WatchfilesRustInternalError

from flows.history.changes import WRITTEN_BY_RUNS
from flows.process.workspace_lock import is_held
from flows.scheduling.scheduled_run import has_new_problems
from tasks.core.terminal import print_warning
from tasks.errors import GraftError
from tasks.problems.files import is_problem_file

STILL = 5.0
"""Seconds without a change after which a file counts as complete. A copy over a network pauses for a second or two."""

ACTIVE = [StateType.SCHEDULED, StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]


def watched(root: Path, name: str) -> Path:
    """The folder or file to watch. Raises GraftError if there is none."""
    path = root / name
    if not path.exists():
        raise GraftError(f"--watch {name}: no such file or folder; make it, or name that of problems.path")
    return path


async def run_on_arrival(root: Path, path: Path, deployment: str) -> None:
    """Create a run of the deployment each time that problem files have arrived. Never ends.

    Files that arrive during a run lead to one run after it: Prefect would cancel one that is created before its end.
    """
    due = has_new_problems(root)
    async for changed in arrivals(root, path):
        due = due or changed
        if due and not changed:
            try:
                due = not await _create_run(root, deployment)
            except httpx.HTTPError:  # the server is being restarted
                continue


async def arrivals(root: Path, path: Path) -> AsyncIterator[bool]:
    """True as problem files in `path` change, False after each STILL seconds in which nothing did.

    A file is watched by its folder, since an editor replaces it by another.
    """
    one_file = path.is_file()
    options: dict[str, Any] = {
        "watch_filter": lambda change, name: change != Change.deleted and is_read(root, path, Path(name)),
        "rust_timeout": round(1000 * STILL),
        "yield_on_timeout": True,
        "recursive": not one_file,
    }
    while True:
        try:
            async for changes in awatch(path.parent if one_file else path, **options):
                yield bool(changes)
        except* WatchfilesRustInternalError as errors:
            if "decode path" not in str(errors.exceptions[0]):
                raise
            print_warning(f"--watch: {errors.exceptions[0]}: its name is not UTF-8; rename it")
        yield True  # the other changes of that moment are lost


def is_read(root: Path, path: Path, file: Path) -> bool:
    """True if a run may read the file in `path`; what runs write themselves is none."""
    if file.is_relative_to(root) and file.relative_to(root).as_posix().startswith(WRITTEN_BY_RUNS):
        return False
    return file == path or (file.is_relative_to(path) and is_problem_file(file.relative_to(path)))


async def _create_run(root: Path, deployment: str) -> bool:
    """False while a run, of the deployment or by hand, is active."""
    if is_held(root):
        return False
    async with get_client() as client:
        deployment_id = (await client.read_deployment_by_name(deployment)).id
        active = FlowRunFilter(
            deployment_id=FlowRunFilterDeploymentId(any_=[deployment_id]),
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=ACTIVE)),
            expected_start_time=FlowRunFilterExpectedStartTime(before_=datetime.now(UTC)),  # the schedule's are later
        )
        if await client.read_flow_runs(flow_run_filter=active, limit=1):
            return False
        await client.create_flow_run_from_deployment(deployment_id)
    return True
