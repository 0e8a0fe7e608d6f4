"""`graft serve`: the schedule or the watch of files, and each of its runs in a process of its own, until Ctrl-C."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy, DeploymentSchedule
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from prefect.exceptions import ObjectNotFound
from prefect.runner import Runner
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.types.entrypoint import EntrypointType
from pydantic import ValidationError
from tzlocal import get_localzone_name

from flows.alerts.scheduled_alerts import check_schedule, rule_of
from flows.doctor import refuse_bad_pair
from flows.prefect_runs.crashed_runs import mark_crashed, workspace_tag
from flows.prefect_runs.server_address import REMEDY
from flows.prefect_runs.temporary_server import TemporaryServer
from flows.scheduling.deployment import project_name
from flows.scheduling.scheduled_run import scheduled
from flows.scheduling.watch import run_on_arrival, watched
from tasks.core.loopback import answers
from tasks.errors import GraftError, TransientError
from tasks.params.file import load_params

Value = TypeVar("Value")

TICK = 5.0
"""Seconds between two checks of our own server."""

ONE_AT_A_TIME = ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW)
"""After a downtime all missed runs are due together: Prefect starts the first and cancels the others."""

FIELDS = 5
"""Of a cron; Prefect would take a sixth for seconds."""

LONGEST = 31_536_000
"""Longest interval in seconds."""

RETURN = 60.0
"""Seconds in which it has to come back."""


def serve(root: Path, cron: str | None, every: float | None, watch: str | None, name: str | None) -> None:
    """Serve until Ctrl-C. Raises GraftError if the schedule is invalid or the server does not answer."""
    path = watched(root, watch) if watch else None
    schedule = None if path and cron is None and every is None else schedule_of(cron, every)
    refuse_bad_pair()
    name = name or project_name(root)
    with _server() as (url, ours):

        def work() -> None:
            runner, commands = _register(root, name, schedule)
            resume = " && ".join(f"PREFECT_API_URL={quote(url)} {command}" for command in commands)
            paused = f"paused in Prefect (resume it there: {resume})" if resume else ""
            check_schedule(root, [schedule] if schedule and not paused else [])
            when = [_described(schedule, paused)] if schedule else []
            when += [f"when problems arrive in {watch}"] if watch else []
            print(f"scheduled {' and '.join(when)} as {scheduled.name}/{name}; Prefect: {url}", flush=True)
            asyncio.run(_work(root, name, path, runner))

        try:
            with suppress(KeyboardInterrupt):
                retry_while_restarting(ours, work)  # Prefect's runner ends after a few polls without an answer
        except (httpx.TransportError, RuntimeError, ExceptionGroup) as error:
            if not isinstance(error, httpx.TransportError) and answers(f"{url}/health"):
                raise
            why = "run it again" if ours else REMEDY
            raise TransientError(f"prefect: no answer from {url} ({error}); {why}") from error


async def _work(root: Path, name: str, path: Path | None, runner: Runner) -> None:
    """Run what is due, and what arrives in `path`, until one of the two ends."""
    works: list[Coroutine[Any, Any, None]] = [runner.start()]
    if path:
        works.append(run_on_arrival(root, path, f"{scheduled.name}/{name}"))
    ended, _ = await asyncio.wait(map(asyncio.create_task, works), return_when=asyncio.FIRST_COMPLETED)
    for task in ended:
        task.result()


def _register(root: Path, name: str, schedule: CronSchedule | IntervalSchedule | None) -> tuple[Runner, list[str]]:
    """Register the deployment; returns the runner that polls the server for its runs, and the commands that resume what
    is paused. May be repeated.

    What a person has paused in Prefect stays paused, unless the schedule is another one now.
    """
    crashed = mark_crashed(root, load_params(root / "params.yaml").machine.tracking)
    if crashed:
        print(f"marked as crashed, their processes being gone: {', '.join(crashed)}", flush=True)
    before = _registered(name, schedule)
    paused, active = (before[0].paused, before[1].active) if before else (False, True)
    runner = Runner(name)
    runner.add_flow(
        scheduled,
        name=name,
        schedules=[DeploymentScheduleCreate(schedule=schedule, active=active)] if schedule else [],
        paused=paused,
        concurrency_limit=ONE_AT_A_TIME,
        tags=[workspace_tag(root)],
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    after = _registered(name, schedule)
    commands = []
    if after and after[0].paused:
        commands.append(f"prefect api POST /deployments/{after[0].id}/resume_deployment")
    if after and not after[1].active:
        commands.append(f"prefect deployment schedule resume {quote(f'{scheduled.name}/{name}')} {after[1].id}")
    return runner, commands


def _registered(
    name: str, schedule: CronSchedule | IntervalSchedule | None
) -> tuple[DeploymentResponse, DeploymentSchedule] | None:
    """The deployment and the schedule in Prefect; None where it has not both."""
    if not schedule:
        return None
    with get_client(sync_client=True) as client:
        try:
            found = client.read_deployment_by_name(f"{scheduled.name}/{name}")
        except ObjectNotFound:
            return None
    rule = rule_of(schedule.model_dump_json())
    return next(((found, each) for each in found.schedules if rule_of(each.schedule.model_dump_json()) == rule), None)


def retry_while_restarting(ours: TemporaryServer | None, work: Callable[[], Value]) -> Value:
    """The result of `work`, which is repeated while our own server, which was killed, is being restarted.

    An exception of any type may come of that: Prefect's runner says RuntimeError, its events fail in websockets.
    """
    limit = time.monotonic() + RETURN
    while True:
        begun = time.monotonic()
        try:
            return work()
        except Exception as error:
            now = time.monotonic()
            if now - begun > RETURN:  # it was there until now
                limit = now + RETURN
            refused = isinstance(error, httpx.TransportError)
            if ours is None or now > limit or (not refused and ours.answers_since(begun)):
                raise
            time.sleep(TICK)


def schedule_of(cron: str | None, every: float | None) -> CronSchedule | IntervalSchedule:
    """The schedule in local time. Raises GraftError that says how a schedule is written."""
    if (cron is None) == (every is None):
        raise GraftError('graft serve: when? Write one of --cron "0 3 * * *" and --every 3600, or --watch data')
    if every is not None:
        if not 1 <= every <= LONGEST:
            raise GraftError(f"--every {every:g}: write seconds, from 1 to {LONGEST} (a year): 3600 is each hour")
        return IntervalSchedule(interval=timedelta(seconds=every))
    try:
        schedule = CronSchedule(cron=str(cron), timezone=_local_zone())
        if not schedule.cron.startswith("@") and len(schedule.cron.split()) != FIELDS:
            raise _no_cron(cron, f"{len(schedule.cron.split())} fields; seconds and years have none")
        _next_time(schedule)
    except ValidationError as error:
        raise _no_cron(cron, error.errors()[0]["msg"].removeprefix("Value error, ")) from None
    except ValueError:
        raise _no_cron(cron, "a date that never comes") from None
    return schedule


def _no_cron(cron: str | None, why: str) -> GraftError:
    return GraftError(
        f'--cron "{cron}": {why}; write minute, hour, day, month and weekday: "0 3 * * *" is 3 each night'
    )


def _next_time(schedule: CronSchedule) -> datetime:
    """When it is due. Raises ValueError if it never is."""
    from prefect.server.schemas.schedules import CronSchedule as ServerSchedule  # only the server's know their times

    return asyncio.run(ServerSchedule(cron=schedule.cron, timezone=schedule.timezone).get_dates(n=1))[0]


def _described(schedule: CronSchedule | IntervalSchedule, paused: str = "") -> str:
    """A schedule in words. `paused`: said instead of the next date."""
    if isinstance(schedule, CronSchedule):
        note = paused or f"next on {_next_time(schedule):%Y-%m-%d at %H:%M}"
        return f'at "{schedule.cron}" ({schedule.timezone}), {note},'
    return f"every {schedule.interval.total_seconds():g} s" + (f", {paused}," if paused else "")


def _local_zone() -> str:
    """The name of the local time zone.

    Raises GraftError where TZ names none, which tzlocal would pass over, and where the machine's files name another
    zone than its clock has.
    """
    named = os.environ.get("TZ", "").removeprefix(":")
    try:
        name = get_localzone_name() if not named or named.startswith("/") else ZoneInfo(named).key
    except (LookupError, ValueError):
        name = None
    if not name:
        raise GraftError(f"--cron: no time zone {named!r}; set the variable TZ to one, Europe/Berlin for instance")
    if (not named or named.startswith("/")) and not _is_of_the_clock(ZoneInfo(name)):
        where = named or "/etc/localtime"
        raise GraftError(
            f"--cron: the time zone {name} by its name is not that of the clock, {where}; "
            "set the variable TZ to the one you mean, Europe/Berlin for instance"
        )
    return name


def _is_of_the_clock(zone: ZoneInfo) -> bool:
    """Whether the machine's clock goes by a zone, in each week of a year."""
    moments = (time.time() + week * timedelta(weeks=1).total_seconds() for week in range(53))
    return all(
        datetime.fromtimestamp(at, zone).utcoffset() == datetime.fromtimestamp(at).astimezone().utcoffset()
        for at in moments
    )


@contextmanager
def _server() -> Iterator[tuple[str, TemporaryServer | None]]:
    """The URL of the user's server; or of our own, and that server, which lasts as long as the block."""
    known = PREFECT_API_URL.value()
    if known:
        yield known, None
        return
    server, over = TemporaryServer(part="all"), threading.Event()
    with server as url:
        os.environ["PREFECT_API_URL"] = url  # for the processes of the runs
        threading.Thread(target=_restart_server, args=(server, over), daemon=True).start()
        with temporary_settings({PREFECT_API_URL: url}):
            try:
                yield url, server
            finally:
                over.set()


def _restart_server(server: TemporaryServer, over: threading.Event) -> None:
    """Without a server no scheduled run starts, and nothing would say so."""
    while not over.wait(TICK):
        server.restart_if_gone()
