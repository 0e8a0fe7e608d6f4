"""Runs that died: Prefect and MLflow would show them as running for ever.

While a flow run lasts there is a note of its process in `.graft/flows/`. What finds a note whose process is gone marks
that run as crashed. A run that died before it could write one is found by the tag of its workspace.
"""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
from pydantic import BaseModel

from flows.process.settings import prefect_home
from tasks.artifacts import read_json, write_json
from tasks.errors import GraftError
from tasks.params.sections import Tracking
from tasks.tracking.recorder import WORKSPACE

STARTING = timedelta(minutes=5)
"""A deployment's run that has no note is given this long: its process may be on its way."""

WHY = "its process is gone: killed, or the machine went down"


class Process(BaseModel):
    """`born`: seconds since the boot, as a pid is given to another process one day, and the clock may be set."""

    pid: int
    born: float


class Note(BaseModel):
    """The process of a flow run."""

    process: Process
    api: str  # the Prefect server that knows the run; "" is one with the project's own database


@contextmanager
def noted(root: Path, flow_run_id: object) -> Iterator[None]:
    """Leave a note of this process while the block lasts."""
    path = _folder(root) / f"{flow_run_id}.json"
    if path.exists():  # an outer block's
        yield
        return
    write_json(path, Note(process=_this(os.getpid()), api=_api(root)))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def workspace_tag(root: Path) -> str:
    """What the flow runs of a workspace are found by."""
    return f"{WORKSPACE}:{workspace(root)}"


def workspace(root: Path) -> str:
    """The place of a project among all machines."""
    return f"{socket.gethostname()}:{root.resolve()}"


def tag_run(root: Path, flow_run_id: str, tags: list[str]) -> None:
    """Give a flow run that somebody else started the tag of its workspace, beside the `tags` that it has."""
    from prefect.client.orchestration import get_client

    if workspace_tag(root) not in tags:
        with get_client(sync_client=True) as client:
            client.update_flow_run(UUID(flow_run_id), tags=[*tags, workspace_tag(root)])


def mark_crashed(root: Path, tracking: Tracking, alone: bool) -> list[str]:
    """Set the flow runs of this workspace whose process is gone to Crashed, and their MLflow runs to KILLED.

    `alone`: we hold the workspace, so no other run can be at work. Gives the names of those runs. Raises what
    Prefect's client raises where the server is away.
    """
    from prefect.client.orchestration import get_client

    notes = {path.stem: read_json(path, Note) for path in sorted(_folder(root).glob("*.json"))}
    notes = {run: note for run, note in notes.items() if note.api == _api(root)}
    gone = {run for run, note in notes.items() if not _lives(note.process)}
    with get_client(sync_client=True) as client:
        dead = [run for id in gone if (run := _unfinished(client, id))]
        if alone:
            dead += _without_note(client, workspace_tag(root), known=set(notes))
        for run in dead:
            _crash(client, run)
    if gone or dead:
        _kill_in_mlflow(root, tracking, gone | {str(run.id) for run in dead})
    for id in gone:
        (_folder(root) / f"{id}.json").unlink(missing_ok=True)
    return [run.name for run in dead]


def _unfinished(client: Any, flow_run_id: str) -> Any:
    """The flow run; None where it has ended, or the server does not know it."""
    from prefect.exceptions import ObjectNotFound

    try:
        run = client.read_flow_run(UUID(flow_run_id))
    except ObjectNotFound:
        return None
    return None if run.state is None or run.state.is_final() else run


def _without_note(client: Any, tag: str, known: set[str]) -> list[Any]:
    """Flow runs of the workspace that are running, or about to, but of which no process has left a note.

    One that `graft retrain` started has the workspace to itself all the time: since we hold it, it is gone.
    """
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
    from prefect.client.schemas.filters import FlowRunFilterTags as Tags
    from prefect.client.schemas.objects import StateType
    from prefect.context import FlowRunContext
    from prefect.types._datetime import now

    types = FlowRunFilterStateType(any_=[StateType.RUNNING, StateType.PENDING, StateType.CANCELLING])
    chosen = FlowRunFilter(tags=Tags(all_=[tag]), state=FlowRunFilterState(type=types))
    context = FlowRunContext.get()
    own = str(context.flow_run.id) if context and context.flow_run else None
    late = now("UTC") - STARTING
    return [
        run
        for run in client.read_flow_runs(flow_run_filter=chosen)
        if str(run.id) not in known | {own} and (run.deployment_id is None or run.state.timestamp < late)
    ]


def _crash(client: Any, run: Any) -> None:
    from prefect.states import Crashed

    client.set_flow_run_state(run.id, Crashed(message=WHY), force=True)


def _kill_in_mlflow(root: Path, tracking: Tracking, flow_run_ids: set[str]) -> None:
    """A store that does not answer holds up no run: it is told, and the MLflow run stays as it is."""
    from tasks.tracking.queries import end_killed

    try:
        end_killed(root, tracking, sorted(flow_run_ids))
    except GraftError as error:
        print(f"warning: runs that died may be shown as running in MLflow: {error}", file=sys.stderr)


def _lives(process: Process) -> bool:
    try:
        alive = psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE  # one that nobody has collected yet
        return alive and abs(_this(process.pid).born - process.born) < 0.02  # it is counted in hundredths
    except psutil.NoSuchProcess:
        return False


def _this(pid: int) -> Process:
    return Process(pid=pid, born=psutil.Process(pid).create_time() - psutil.boot_time())


def _api(root: Path) -> str:
    from prefect.settings import PREFECT_API_URL, PREFECT_HOME

    own = PREFECT_HOME.value() == prefect_home(root)  # its server's address is another one each time
    return "" if own else PREFECT_API_URL.value() or ""


def _folder(root: Path) -> Path:
    return root / ".graft" / "flows"
