"""Mark runs whose process has died as crashed; Prefect and the tracker would show them as running for ever.

A flow run has a note of its process in `.graft/flows/` as long as it lasts. A note whose process is gone means a crash.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import psutil
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.settings import PREFECT_API_URL, PREFECT_HOME
from prefect.states import Crashed
from pydantic import BaseModel

from flows.prefect_runs.server_address import REMEDY, refuse_endless_answer
from flows.process.settings import prefect_home
from tasks.artifacts import read_json, write_json
from tasks.core.terminal import print_warning
from tasks.errors import GraftError
from tasks.params.machine import Tracking
from tasks.tracking.tags import WORKSPACE


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


def mark_crashed(root: Path, tracking: Tracking) -> list[str]:
    """Set the flow runs of this workspace whose process is gone to Crashed, and their tracked runs to KILLED.

    Returns the names of the crashed runs. The server is asked in any case: raises the errors of Prefect's client if it
    does not answer, GraftError if it is none.
    """
    notes = {path.stem: read_json(path, Note) for path in sorted(_folder(root).glob("*.json"))}
    gone = {run for run, note in notes.items() if note.api == _api(root) and not _is_alive(note.process)}
    chosen = FlowRunFilter(id=FlowRunFilterId(any_=[UUID(id) for id in gone]))
    if url := PREFECT_API_URL.value():
        refuse_endless_answer(url)
    try:
        with get_client(sync_client=True) as client:
            known = client.read_flow_runs(flow_run_filter=chosen)
            dead = [run for run in known if str(run.id) in gone and run.state and not run.state.is_final()]
            for run in dead:
                why = "its process is gone: killed, or the machine went down"
                client.set_flow_run_state(run.id, Crashed(message=why), force=True)
    except (RecursionError, ValueError) as error:  # of json or pydantic
        raise GraftError(f"prefect: what answers at {url} is no Prefect server; {REMEDY}") from error
    if gone:
        from tasks.tracking.store import mark_killed

        try:
            mark_killed(root, tracking, sorted(gone))
        except GraftError as error:
            print_warning(f"runs that died may be shown as running in {tracking.title}: {error}")
    for id in gone:
        (_folder(root) / f"{id}.json").unlink(missing_ok=True)
    return [run.name for run in dead]


def _is_alive(process: Process) -> bool:
    try:
        alive = psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE  # a zombie has ended
        return alive and abs(_identity(process.pid).born - process.born) < 0.02  # its resolution is 0.01 s
    except psutil.NoSuchProcess:
        return False


def _identity(pid: int) -> Process:
    return Process(pid=pid, born=psutil.Process(pid).create_time() - psutil.boot_time())


def _api(root: Path) -> str:
    is_own_database = PREFECT_HOME.value() == prefect_home(root)  # the port of its server differs each time
    return "" if is_own_database else PREFECT_API_URL.value() or ""


def _folder(root: Path) -> Path:
    return root / ".graft" / "flows"
