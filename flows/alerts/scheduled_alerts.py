"""The alerts of a scheduled run, and those at the start of `graft serve`."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from httpx import HTTPError
from prefect.client.orchestration import get_client
from prefect.client.schemas.schedules import SCHEDULE_TYPES
from prefect.exceptions import ObjectNotFound
from prefect.runtime import deployment, flow_run
from prefect.settings import PREFECT_API_URL
from pydantic import TypeAdapter

from flows.alerts.alert import Alert, Memory, alert_of, missed_alerts, result_alerts
from flows.alerts.channels import send
from flows.history.run_history import Entry, close_killed, entries, find_flow_run
from flows.process.exit_codes import failure_line
from flows.process.workspace_lock import SCHEDULED_RUN, WorkspaceLockedError, exclusive_lock
from flows.reports.publish import failure
from tasks.artifacts import read_json, write_json
from tasks.core.metrics_files import read_metrics
from tasks.core.terminal import print_warning, warn_of_errors
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.file import load_params
from tasks.records.promotion import Promotion
from tasks.records.selection import RewardAudit
from tasks.statistics.alarms import training_alarms

PREFIX = "Flow run encountered an exception: "
"""The beginning of Prefect's message of a run that failed."""


@contextmanager
def scheduled_alerts(root: Path) -> Iterator[None]:
    """The block is a scheduled run. Before it, alerts of runs that did not end or did not begin; after it, its own."""
    check_schedule(root, _schedules(), begins=True)
    try:
        yield
    except BaseException as error:
        line = failure_line(error) if isinstance(error, Exception) else "interrupted"
        with warn_of_errors("alerts: none sent"):
            send(root, [_failed(root, line)])
        raise
    with warn_of_errors("alerts: none sent"):
        send(root, _results(Layout(root)))


def check_schedule(root: Path, schedules: Sequence[SCHEDULE_TYPES], begins: bool = False) -> None:
    """Alerts of runs that were killed, and of those that did not begin at the times of `schedules`.

    `begins`: a run begins now, which counts as that of the last time.
    """
    with warn_of_errors("alerts: none sent"):
        send(root, [*_killed(root), *_missed(root, schedules, begins)])


def alert_killed(flow: object, flow_run: object, state: object) -> None:  # noqa: ARG001 (Prefect passes these three)
    """Hook of Prefect, where the process that started the run is still there: the alert of a run that was killed."""
    check_schedule(Path.cwd(), [])


def _killed(root: Path) -> list[Alert]:
    with suppress(WorkspaceLockedError), exclusive_lock(root, SCHEDULED_RUN):
        return [alert_of("run.killed", entry, entry.line) for entry in close_killed(root, _failure)]
    return []  # a run is at work: the next one finds them


def _failure(entry: Entry) -> str | None:
    """The message of a run that Prefect knows to have failed: its alert was sent."""
    if not PREFECT_API_URL.value():
        return None
    try:
        with get_client(sync_client=True) as client:
            state = client.read_flow_run(UUID(entry.flow_run)).state
    except (HTTPError, ObjectNotFound):
        return None
    return f"failed: {(state.message or '').removeprefix(PREFIX)}" if state and state.is_failed() else None


def _missed(root: Path, schedules: Sequence[SCHEDULE_TYPES], begins: bool) -> list[Alert]:
    if not schedules:
        return []
    memory, now = _memory(root), _now()
    present = tuple(schedule.model_dump_json() for schedule in schedules)
    is_same = [rule_of(text) for text in memory.schedules] == [rule_of(text) for text in present]
    times = scheduled_times(memory.schedules, memory.until, now) if memory.until and is_same else []
    until = times[-1] - timedelta(microseconds=1) if times and not begins else now
    _write(root, memory.model_copy(update={"until": until, "schedules": present}))
    return missed_alerts(times)


def scheduled_times(schedules: Sequence[str], since: datetime, until: datetime) -> list[datetime]:
    """The times of schedules, JSON of Prefect's, after `since`; at most about 1,000 of each."""
    from prefect.server.schemas.schedules import SCHEDULE_TYPES  # only the server's know their times

    times: set[datetime] = set()
    for text in schedules:
        schedule = TypeAdapter[SCHEDULE_TYPES](SCHEDULE_TYPES).validate_json(text)
        times |= {*asyncio.run(schedule.get_dates(start=since, end=until))}
    return sorted(time for time in times if since < time <= until)


def rule_of(schedule: str) -> dict[str, object]:
    """A schedule without the moment at which it was made, from which an interval counts."""
    return {key: value for key, value in json.loads(schedule).items() if key != "anchor_date"}


def _failed(root: Path, line: str) -> Alert:
    _write(root, _memory(root).model_copy(update={"until": _now()}))
    entry = None
    with suppress(GraftError):  # the history may be what the run failed of
        entry = find_flow_run(root, str(flow_run.id))
    return alert_of("run.failed", entry, entry.line or line) if entry else Alert("run.failed", line)


def _results(layout: Layout) -> list[Alert]:
    """The alerts of a run that succeeded; none of one that repeats an earlier one, or found nothing new."""
    params, entry = load_params(layout.root / "params.yaml"), find_flow_run(layout.root, str(flow_run.id))
    memory, alerts = _memory(layout.root).model_copy(update={"until": _now()}), list[Alert]()
    others = (other.dvc_lock_md5 for other in entries(layout.root) if entry and other.number < entry.number)
    if entry and entry.dvc_lock_md5 not in others:
        promotion = read_json(layout.promotion, Promotion)
        files = {number: layout.audit(number) for number in range(1, params.rounds.last + 1)}
        audits = {number: read_json(file, RewardAudit) for number, file in files.items() if file.is_file()}
        stage_ids = (f"{stage}@{number}" for stage in ("collect", "reward", "update", "validate") for number in files)
        metrics = {name: read_metrics(layout, name) for name in stage_ids if layout.metrics(name).is_file()}
        alarms = training_alarms(metrics, params.rounds.last)
        alerts, memory = result_alerts(entry, promotion, audits, alarms, memory, params.machine.alerts.unbeaten)
    _write(layout.root, memory)
    return alerts


def _now() -> datetime:
    """The present time; that for which the present run was scheduled, if the server's clock is ahead."""
    now = datetime.now(UTC)
    return max(now, flow_run.scheduled_start_time) if flow_run.id else now


def _schedules() -> list[SCHEDULE_TYPES]:
    """The schedules of the deployment of the present run."""
    if not deployment.id:
        return []
    try:
        with get_client(sync_client=True) as client:
            schedules = client.read_deployment(UUID(deployment.id)).schedules
    except (HTTPError, ObjectNotFound) as error:
        print_warning(f"alerts: prefect: no schedule of this run there ({failure(error)})")
        return []
    return [entry.schedule for entry in schedules if entry.active]


def _memory(root: Path) -> Memory:
    with warn_of_errors("alerts: some alerts may be missing"):
        return read_json(_file(root), Memory) if _file(root).exists() else Memory()
    return Memory()


def _write(root: Path, memory: Memory) -> None:
    with warn_of_errors("alerts: some may come twice"):
        write_json(_file(root), memory)


def _file(root: Path) -> Path:
    return root / ".graft" / "alerts.json"
