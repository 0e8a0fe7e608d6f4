"""The whole run as one Prefect flow.

DVC decides what is done already (`flows/dvc_stages/pipeline.py`), so Prefect keeps no cache of its own: it runs the
stages as its tasks, names them by their address, shows what DVC found done as Cached, and keeps the history.
"""

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any

from httpx import HTTPError, HTTPStatusError
from prefect import Flow, flow, tags, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.context import TagsContext
from prefect.exceptions import TerminationSignal
from prefect.runtime import flow_run, task_run
from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, PREFECT_HOME, temporary_settings
from prefect.states import Completed

from flows.doctor import refuse_traps
from flows.dvc_stages.snapshot import Untouched, untouched
from flows.prefect_runs.crashed_runs import mark_crashed, noted, workspace, workspace_tag
from flows.prefect_runs.shard_runners import Fanned
from flows.prefect_runs.temporary_server import TemporaryServer
from flows.process.exit_codes import Terminated
from flows.process.signals import reraise_lost_signals
from flows.retention.saved_locks import note_lock
from flows.run_session import Beside
from flows.stages.dvc_yaml import stage_of
from flows.stages.result import StageResult
from flows.stages.sources import SOURCES
from tasks.core.sharding import use_fan_out
from tasks.errors import GraftError, TransientError
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.params.sections import Scheduling
from tasks.problems.digests import problems_tag
from tasks.programs.sandbox.sandbox import probe_tier
from tasks.redaction import without_secrets
from tasks.tracking.mlflow_process import Worker
from tasks.tracking.recorder import WORKSPACE, Recorder

if TYPE_CHECKING:
    from flows.dvc_stages.pipeline import Stages

LONGEST_DELAY = 3600.0
"""Seconds between two tries of a stage."""


def chain(stage: Callable[[str], None], rounds: int) -> None:
    """problems ─ coldstart ─ bootstrap ─ (search ─ collect ─ reward ─ select ─ update) × rounds ─ …

    … validate × rounds ─ choose ─ evaluate ─ promote
    """
    stage("problems")
    stage("coldstart")
    stage("bootstrap")
    for round in range(1, rounds + 1):
        stage(f"search@{round}")
        stage(f"collect@{round}")
        stage(f"reward@{round}")
        stage(f"select@{round}")
        stage(f"update@{round}")
    for round in range(1, rounds + 1):  # not among the others: this is DVC's order
        stage(f"validate@{round}")
    stage("choose")
    stage("evaluate@before")
    stage("evaluate@after")
    stage("promote")


@dataclass
class Run:
    """What a run has to tell when it is over."""

    params: Params
    outcomes: list[StageResult] = field(default_factory=list)
    recorder: Recorder | None = None
    """MLflow's, once nothing is left to do but to wait until it has taken it all."""
    error: BaseException | None = None
    """What ended it before its end."""
    over: bool = False
    """Whether nothing is left to do but to tell Prefect of it."""
    server: TemporaryServer | None = None
    """Prefect's, where the user has none."""

    @property
    def seconds(self) -> dict[str, float]:
        return {outcome.address: outcome.seconds for outcome in self.outcomes}

    @property
    def cached(self) -> set[str]:
        return {outcome.address for outcome in self.outcomes if outcome.cached}

    def recorded(self) -> str | None:
        """The MLflow run. Waits until MLflow has taken it all, which goes on while the report is printed."""
        return self.recorder.taken() if self.recorder else None


def may_pass(task: Any, task_run: Any, state: State[Any]) -> bool:  # noqa: ARG001 (Prefect gives these three)
    """Whether a stage that failed is worth another try."""
    return isinstance(state.result(raise_on_failure=False), TransientError)


@task(cache_policy=NO_CACHE, persist_result=False, retry_condition_fn=may_pass)
def run_stage(compute: Callable[[], StageResult]) -> State[None]:
    """One stage as a Prefect task; the state `Cached` says that nothing had to be computed.

    A function is all that it takes: Prefect looks through whatever lies in the arguments of a task.
    """
    try:
        with without_secrets():
            outcome = compute()
    except TransientError as error:
        print(f"warning: {task_run.name}: {error}; try {task_run.run_count} of this stage", file=sys.stderr)
        raise
    return Completed(name="Cached" if outcome.cached else "Completed", message=outcome.how)


def retrain(
    stages: "Stages | Untouched",
    params: Params,
    tell: Callable[[StageResult], None],
    line: Callable[[], str] | None = None,
    worker: Worker | None = None,
    run: Run | None = None,
) -> Run:
    """Bring every stage up to date, in order, and record the run in MLflow. Stops at the first stage that fails.

    `line` says at the end what has come of the run, for MLflow. `worker` is for the recorder. `run`: what to note it
    all in.
    """
    run = run or Run(params)
    try:
        _retrain(stages, run, tell, line, worker)
    except BaseException as error:
        run.error = error
        raise
    finally:
        run.over = True
        if run.server:
            run.server.keep()  # a run should not wait for a server that is gone
    return run


def as_flow(work: Callable[[], Run]) -> Flow[[], Run]:
    """The run as a Prefect flow of no parameters: Prefect looks through all that lies in them, half a second long."""

    @flow(name="retrain", persist_result=False)
    def retrain() -> Run:
        return work()

    return retrain


def _retrain(
    stages: "Stages | Untouched",
    run: Run,
    tell: Callable[[StageResult], None],
    line: Callable[[], str] | None,
    worker: Worker | None,
) -> None:
    params, root = run.params, stages.root
    about = {"prefect.flow_run_id": str(flow_run.id), WORKSPACE: workspace(root), "sandbox_tier": sandbox_tier()}
    about |= problems_tag(root, params)
    recorder = Recorder(Layout(root), params, about, worker)
    again = run_stage.with_options(retries=params.schedule.retries, retry_delay_seconds=delays(params.schedule))

    def compute(address: str) -> StageResult:
        run.outcomes.append(stages.run(address))
        return run.outcomes[-1]

    def stage(address: str) -> None:
        end_if_asked()
        with TagsContext(current_tags=set()):  # for each tag of a task Prefect's server would be asked for leave
            again.with_options(name=stage_of(address), task_run_name=address)(partial(compute, address))
        outcome = run.outcomes[-1]
        recorder.stage(address, outcome.seconds, outcome.cached, outcome.deps, outcome.outs)
        tell(outcome)

    try:
        with (
            reraise_lost_signals() as end_if_asked,
            noted(root, flow_run.id),
            Fanned(params.runner) as fanned,
            use_fan_out(fanned),
        ):
            stages.run(SOURCES)  # no step of the run: it notes what the steps compute with
            chain(stage, params.rounds.last)
            note_lock(root)
            stages.leave()
            summary = tell_in_full(Layout(root), recorder)
    except BaseException:
        recorder.finish("FAILED")
        raise
    recorder.close("FINISHED", **({"line": line()} if line else {}))
    run.recorder = recorder
    if summary:
        if run.server:
            run.server.keep()
        show(Layout(root), recorder, summary)


def delays(schedule: Scheduling) -> list[float]:
    """Seconds before each further try of a stage: doubled each time, up to an hour."""
    return [min(schedule.delay * 2**number, LONGEST_DELAY) for number in range(schedule.retries)]


def tell_in_full(layout: Layout, recorder: Recorder) -> str | None:
    """The page of the finished run, in its folder and in MLflow; gives the summary of it.

    A run whose stages are all done is not failed for it: what stands in the way of the page is a warning.
    """
    from flows.reports.html.page import write_page  # late: no stage waits for what only the page needs

    try:
        summary = write_page(layout)
    except GraftError as error:
        for old in (layout.account, layout.page):
            old.unlink(missing_ok=True)
        print(f"warning: no page of this run: {error}", file=sys.stderr)
        return None
    recorder.files(layout.account, layout.page)
    return summary


def show(layout: Layout, recorder: Recorder, summary: str) -> None:
    """The summary as an artifact of the flow run, with the way to all the rest.

    The folder is named and no link: browsers follow none from a server's page to a file, not even on that machine.
    """
    found = {"page": recorder.address(layout.page), "MLflow run": recorder.address()}
    links = [f"[{text}]({address})" for text, address in found.items() if address]
    where = " · ".join([*links, f"`{layout.page}` on `{gethostname()}`"])
    try:
        create_markdown_artifact(f"{summary}\n\n{where}\n", key="page", description=summary.splitlines()[0])
    except HTTPError as error:
        print(f"warning: prefect: no summary of this run there ({_told(error)})", file=sys.stderr)


def sandbox_tier() -> str:
    """What holds the programs on this machine, for the record; a stage that runs programs says what to do about it."""
    try:
        return probe_tier()[0]
    except GraftError:
        return "none"


def start(root: Path, params: Params, tell: Callable[[StageResult], None], beside: Beside, pull: bool = False) -> Run:
    """Run the flow once, in this process. `pull`: see `Stages`.

    The caller holds the workspace alone. A Prefect that goes away meanwhile costs its history, never a result.
    """
    refuse_traps()
    logging.raiseExceptions = False  # Prefect would print each line of its log that its server did not take
    stages = _stages(root, params, pull)
    if beside.worker and not isinstance(stages, Untouched):
        beside.worker.give_way()
    url = PREFECT_API_URL.value()  # of the environment, or of a profile
    if beside.server and url:
        beside.server.stop()
    run = Run(params, server=None if url else beside.server)
    # The heartbeat thread sleeps in steps of a second and would add one to each run.
    settings: dict[Any, Any] = {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}
    if run.server:
        settings[PREFECT_API_URL] = run.server.url()
    try:
        with temporary_settings(settings), tags(workspace_tag(root)):
            mark_crashed(root, params.tracking, alone=True)
            as_flow(partial(retrain, stages, params, tell, worker=beside.worker, run=run))()
    except (HTTPError, RuntimeError) as error:
        if error is run.error or not (isinstance(error, HTTPError) or "reach API" in str(error)):
            raise
        where = url or f"its temporary server ({PREFECT_HOME.value()})"
        if not run.over:
            raise GraftError(
                f"prefect: {_told(error)} from {where}; start that server, or unset PREFECT_API_URL to do without"
            ) from error
        print(
            f"warning: prefect: {_told(error)} from {where}, which does not show how this run ended; nothing else is "
            "lost",
            file=sys.stderr,
        )
        if isinstance(run.error, TerminationSignal):
            raise Terminated(run.error.signal) from None
        if run.error is not None:
            raise run.error from None
    return run


def _stages(root: Path, params: Params, pull: bool) -> "Stages | Untouched":
    """DVC's, where anything is to be done."""
    addresses = [SOURCES]
    chain(addresses.append, params.rounds.last)
    if not pull and (stages := untouched(root, addresses)):
        return stages
    from flows.dvc_stages.pipeline import Stages  # late: it takes its time to import DVC

    return Stages(root, pull, seconds=params.schedule.seconds)


def _told(error: Exception) -> str:
    """What a server did instead of its work."""
    return f"status {error.response.status_code}" if isinstance(error, HTTPStatusError) else "no answer"
