"""Mark runs whose process has died as crashed; Prefect and MLflow would show them as running for ever.

A flow run has a note of its process in `.graft/flows/` as long as it lasts. A note whose process is gone means a crash.
A run that died before it wrote its note is found by the tag of its workspace.
"""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.filters import FlowRunFilterTags as Tags
from prefect.client.schemas.objects import StateType
from prefect.context import FlowRunContext
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL, PREFECT_HOME
from prefect.states import Crashed
from pydantic import BaseModel

from flows.prefect_runs.server_address import REMEDY
from flows.process.settings import prefect_home
from tasks.artifacts import read_json, write_json
from tasks.errors import GraftError
from tasks.params.machine import Tracking
from tasks.tracking.tags import WORKSPACE

START_GRACE = timedelta(minutes=5)
"""A deployment's run without a note is not a crash before this time: its process may be starting."""

CRASH_MESSAGE = "its process is gone: killed, or the machine went down"


class Process(BaseModel):
    """A process. `born`: its start in seconds since the boot, as pids are used again, and the clock may be changed."""

    pid: int
    born: float


class Note(BaseModel):
    """The process of a flow run."""

    process: Process
    api: str  # URL of the Prefect server of the run; "" for one with the project's own database


@contextmanager
def flow_run_note(root: Path, flow_run_id: object) -> Iterator[None]:
    """Keep a note of this process while the block lasts."""
    path = _folder(root) / f"{flow_run_id}.json"
    if path.exists():  # of an outer block
        yield
        return
    write_json(path, Note(process=_identity(os.getpid()), api=_api(root)))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def workspace_tag(root: Path) -> str:
    """The tag of all flow runs of a workspace."""
    return f"{WORKSPACE}:{workspace(root)}"


def workspace(root: Path) -> str:
    """Host and folder of a project."""
    return f"{socket.gethostname()}:{root.resolve()}"


def tag_run(root: Path, flow_run_id: str, tags: list[str]) -> None:
    """Add the tag of its workspace to a flow run that a worker or a schedule started with `tags`."""
    if workspace_tag(root) not in tags:
        with get_client(sync_client=True) as client:
            client.update_flow_run(UUID(flow_run_id), tags=[*tags, workspace_tag(root)])


def mark_crashed(root: Path, tracking: Tracking, alone: bool) -> list[str]:
    """Set the flow runs of this workspace whose process is gone to Crashed, and their MLflow runs to KILLED.

    `alone`: this process holds the lock of the workspace, so that no other run is active. Returns the names of the
    crashed runs. Raises the errors of Prefect's client if the server does not answer, GraftError if it is none.
    """
    notes = {path.stem: read_json(path, Note) for path in sorted(_folder(root).glob("*.json"))}
    notes = {run: note for run, note in notes.items() if note.api == _api(root)}
    gone = {run for run, note in notes.items() if not _is_alive(note.process)}
    try:
        with get_client(sync_client=True) as client:
            dead = [run for id in gone if (run := _unfinished(client, id))]
            if alone:
                dead += _without_note(client, workspace_tag(root), known=set(notes))
            for run in dead:
                client.set_flow_run_state(run.id, Crashed(message=CRASH_MESSAGE), force=True)
    except ValueError as error:  # of json or pydantic
        raise GraftError(f"prefect: what answers at {_url()} is no Prefect server; {REMEDY}") from error
    if gone or dead:
        _kill_in_mlflow(root, tracking, gone | {str(run.id) for run in dead})
    for id in gone:
        (_folder(root) / f"{id}.json").unlink(missing_ok=True)
    return [run.name for run in dead]


def _unfinished(client: Any, flow_run_id: str) -> Any:
    """The flow run; None if it has ended or the server does not know it."""
    try:
        run = client.read_flow_run(UUID(flow_run_id))
    except ObjectNotFound:
        return None
    return None if run.state is None or run.state.is_final() else run


def _without_note(client: Any, tag: str, known: set[str]) -> list[Any]:
    """Flow runs of the workspace in a state before their end, without a note of their process.

    Those of `graft retrain` hold the lock of the workspace all the time: since this process holds it, they are gone.
    """
    types = FlowRunFilterStateType(any_=[StateType.RUNNING, StateType.PENDING, StateType.CANCELLING])
    chosen = FlowRunFilter(tags=Tags(all_=[tag]), state=FlowRunFilterState(type=types))
    context = FlowRunContext.get()
    this_run = str(context.flow_run.id) if context and context.flow_run else None
    late = datetime.now(UTC) - START_GRACE
    return [
        run
        for run in client.read_flow_runs(flow_run_filter=chosen)
        if str(run.id) not in known | {this_run} and (run.deployment_id is None or run.state.timestamp < late)
    ]


def _kill_in_mlflow(root: Path, tracking: Tracking, flow_run_ids: set[str]) -> None:
    """An error of the store is only a warning; the MLflow run then remains as it is."""
    from tasks.tracking.queries import mark_killed

    try:
        mark_killed(root, tracking, sorted(flow_run_ids))
    except GraftError as error:
        print(f"warning: runs that died may be shown as running in MLflow: {error}", file=sys.stderr)


def _is_alive(process: Process) -> bool:
    try:
        alive = psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE  # a zombie has ended
        return alive and abs(_identity(process.pid).born - process.born) < 0.02  # its resolution is 0.01 s
    except psutil.NoSuchProcess:
        return False


def _identity(pid: int) -> Process:
    return Process(pid=pid, born=psutil.Process(pid).create_time() - psutil.boot_time())


def _url() -> str:

    return PREFECT_API_URL.value() or ""


def _api(root: Path) -> str:

    is_own_database = PREFECT_HOME.value() == prefect_home(root)  # the port of its server differs each time
    return "" if is_own_database else PREFECT_API_URL.value() or ""


def _folder(root: Path) -> Path:
    return root / ".graft" / "flows"
