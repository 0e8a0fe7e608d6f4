"""The whole run as one Prefect flow.

DVC decides what is done already (`flows/stages.py`), so Prefect keeps no cache of its own: it runs the stages as its
tasks, names them by their address, shows what DVC found done as Cached, and keeps the history.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIG_BLOCK, SIG_SETMASK, SIGINT, pthread_sigmask

from httpx import HTTPError, TransportError
from prefect import flow, task
from prefect.artifacts import create_link_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
from prefect.states import Completed

from flows.doctor import refuse_traps
from flows.stages import Outcome, Stages
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params import Params
from tasks.tracking import Recorder
from tasks.workflows.sandbox import probe_tier


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
    outcomes: list[Outcome] = field(default_factory=list)
    mlflow_run: str | None = None

    @property
    def seconds(self) -> dict[str, float]:
        return {outcome.address: outcome.seconds for outcome in self.outcomes}

    @property
    def cached(self) -> set[str]:
        return {outcome.address for outcome in self.outcomes if outcome.cached}


@task(cache_policy=NO_CACHE, persist_result=False)
def run_stage(stages: Stages, address: str, into: list[Outcome]) -> State[None]:
    """One stage as a Prefect task; the state `Cached` says that nothing had to be computed."""
    into.append(stages.run(address))
    return Completed(name="Cached" if into[-1].cached else "Completed", message=into[-1].how)


@flow(name="retrain", validate_parameters=False, persist_result=False)
def retrain(root: Path, params: Params, tell: Callable[[Outcome], None]) -> Run:
    """Bring every stage up to date, in order, and record the run in MLflow. Stops at the first stage that fails."""
    run = Run(params)
    stages = Stages(root)
    tags = {"prefect.flow_run_id": str(flow_run.id), "sandbox_tier": sandbox_tier()}
    recorder = Recorder(Layout(root), params, tags)

    def stage(address: str) -> None:
        name = address.partition("@")[0]
        run_stage.with_options(name=name, task_run_name=address)(stages, address, run.outcomes)
        outcome = run.outcomes[-1]
        recorder.stage(address, outcome.seconds, outcome.cached, outcome.deps, outcome.outs)
        tell(outcome)

    try:
        chain(stage, params.rounds.last)
        tell_in_full(Layout(root), recorder)
    except BaseException:
        recorder.finish("FAILED")
        raise
    run.mlflow_run = recorder.finish("FINISHED")
    return run


def tell_in_full(layout: Layout, recorder: Recorder) -> None:
    """The page of the finished run: in its folder, in MLflow and linked from the flow run.

    A run whose stages are all done is not failed for it: what stands in the way of the page is a warning.
    """
    from flows.page.write import write_page  # late: no stage waits for what only the page needs

    try:
        decision = write_page(layout)
    except GraftError as error:
        for old in (layout.account, layout.page):
            old.unlink(missing_ok=True)
        print(f"warning: no page of this run: {error}", file=sys.stderr)
        return
    recorder.files(layout.account, layout.page)
    create_link_artifact(layout.page.as_uri(), str(layout.page), key="page", description=decision)


def sandbox_tier() -> str:
    """What holds the programs on this machine, for the record; a stage that runs programs says what to do about it."""
    try:
        return probe_tier()[0]
    except GraftError:
        return "none"


def start(root: Path, params: Params, tell: Callable[[Outcome], None]) -> Run:
    """Run the flow once, in this process, with Prefect's temporary server where the user has none."""
    refuse_traps()
    server = PREFECT_API_URL.value()
    if not server:
        _start_server()
    try:
        # The heartbeat thread sleeps in steps of a second and would add one to each run.
        with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
            return retrain(root, params, tell)
    except (TransportError, RuntimeError) as error:
        if not server or (isinstance(error, RuntimeError) and "reach API" not in str(error)):
            raise
        raise GraftError(
            f"prefect: no answer from {server}; start that server, or unset PREFECT_API_URL to do without"
        ) from error


def _start_server() -> None:
    """Prefect's temporary server, which Prefect would start by itself later on.

    Started here with the interrupt signal blocked, which the new process inherits: Ctrl-C reaches every process of
    the terminal, and a server that is gone could not be told of the interrupted run; Prefect would try for a minute.
    """
    from prefect.server.api.server import SubprocessASGIServer

    unblocked = pthread_sigmask(SIG_BLOCK, {SIGINT})
    try:
        SubprocessASGIServer().start()
    except (RuntimeError, HTTPError) as error:
        raise GraftError(
            f"prefect: its server did not start ({error}); graft doctor checks whether its versions are the pinned ones"
        ) from error
    finally:
        pthread_sigmask(SIG_SETMASK, unblocked)
