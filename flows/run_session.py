"""One run of the chain: its stages as Prefect tasks, and what accompanies them from the first to the last.

Prefect     the user's server or a temporary one; a note of the flow run, by which a crash is found later
tracker     a recorder process
shards      the task runner of `runner` in params.yaml
signals     one that Python dropped is raised again before the next stage
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from httpx import HTTPError
from prefect import tags, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.context import TagsContext
from prefect.exceptions import TerminationSignal
from prefect.runtime import flow_run, task_run
from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, PREFECT_HOME, temporary_settings
from prefect.states import Completed

from flows.contract import check_contract
from flows.doctor import refuse_bad_pair
from flows.dvc_stages.pipeline import DvcPipeline
from flows.dvc_stages.reproduce import StageResult
from flows.history.changes import overrides
from flows.history.run_history import RunHistory
from flows.prefect_runs.crashed_runs import flow_run_note, mark_crashed, workspace, workspace_tag
from flows.prefect_runs.server_address import REMEDY
from flows.prefect_runs.shard_runners import ShardRunner
from flows.prefect_runs.task_run_logs import log_to_prefect
from flows.prefect_runs.temporary_server import TemporaryServer
from flows.process.exit_codes import failure_line
from flows.process.signals import Terminated, handle_as_command
from flows.reports.publish import failure, publish_name, publish_page, publish_summary, summary_of
from flows.reports.run_record import RunRecord
from flows.retention.dvc_cache import save_lock
from flows.stages.dvc_yaml import stage_of
from tasks.artifacts import read_json
from tasks.core.sharding import use_fan_out
from tasks.core.terminal import print_warning
from tasks.errors import GraftError, TransientError
from tasks.layout import Layout
from tasks.model.sampling.vllm.server import keep_server
from tasks.params.machine import Scheduling
from tasks.params.params import Params
from tasks.problems.digests import problems_tag
from tasks.programs.sandbox.sandbox import probe_tier
from tasks.records.promotion import Promotion
from tasks.redaction import redacted, without_secrets
from tasks.tracking.recorder import Recorder
from tasks.tracking.tags import CHANGED, DESCRIPTION, OVERRIDES, RUN_NAME, WORKSPACE

logger = logging.getLogger(__name__)

DELAY = 10.0
"""Seconds before the second attempt of a stage, doubled before each further one: a server takes some to start."""

LONGEST_DELAY = 3600.0
"""Seconds between two attempts of a stage."""


def is_transient(task: Any, task_run: Any, state: State[Any]) -> bool:  # noqa: ARG001 (Prefect passes these three)
    """True if a stage that failed is to be retried."""
    return isinstance(state.result(raise_on_failure=False), TransientError)


@task(cache_policy=NO_CACHE, persist_result=False, retry_condition_fn=is_transient)
def stage_task(compute: Callable[[], StageResult]) -> State[None]:
    """One stage as a Prefect task; its state is named `Cached` if nothing had to be computed.

    Its only argument is a function, because Prefect inspects the contents of all others.
    """
    try:
        with without_secrets():
            result = compute()
    except TransientError as error:
        print_warning(f"{task_run.name}: {error}; try {task_run.run_count} of this stage")
        raise
    logger.info(" ".join(str(result).split()))
    return Completed(name="Cached" if result.cached else "Completed", message=result.how)


class RunSession:
    """A run: `connect` to Prefect around the flow, `open` inside it, `run` each stage."""

    def __init__(
        self,
        pipeline: DvcPipeline,
        params: Params,
        report: Callable[[StageResult], None],
        line: Callable[[], str] | None = None,
    ) -> None:
        """`report` is called after each stage; `line` returns the result of a scheduled run in words."""
        self.params = params
        self.results: list[StageResult] = []
        self.breaches: list[str] = []  # of the contract of problem files
        self.record: RunRecord | None = None  # of the finished run; None if a result could not be read
        self._pipeline, self._report, self._line = pipeline, report, line
        self._layout = Layout(pipeline.root)
        self._server: TemporaryServer | None = None
        self._recorder: Recorder | None = None
        self._history: RunHistory | None = None
        self._stage = ""  # the last that began
        self._error: BaseException | None = None
        self._over = False  # nothing is left but Prefect's record of the end
        schedule = params.machine.schedule
        self._task = stage_task.with_options(retries=schedule.retries, retry_delay_seconds=retry_delays(schedule))

    @contextmanager
    def connect(self) -> Iterator[None]:
        """The block runs a flow, with the API of the user's Prefect server or of a temporary one.

        A server that goes away during the run costs history, never a result.
        """
        refuse_bad_pair()
        logging.raiseExceptions = False  # else Prefect prints each log record that its server did not accept
        url = PREFECT_API_URL.value()  # from the environment or a profile
        settings: dict[Any, Any] = {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}  # its thread would add a second to a run
        if not url:
            self._server = TemporaryServer()
            settings[PREFECT_API_URL] = self._server.url()
        try:
            with temporary_settings(settings), tags(workspace_tag(self._layout.root)):
                mark_crashed(self._layout.root, self.params.machine.tracking)
                yield
        except (HTTPError, RuntimeError) as error:
            # Prefect's client raises a plain RuntimeError where it gives up. What a stage raised is not Prefect's.
            if error is self._error or not (isinstance(error, HTTPError) or "reach API" in str(error)):
                raise
            where = url or f"its temporary server ({PREFECT_HOME.value()})"
            self._without_prefect(error, f"prefect: {failure(error)} from {where}")

    def _without_prefect(self, error: Exception, problem: str) -> None:
        """Raise what ended the run, or warn if it came to its end."""
        if not self._over:
            raise GraftError(f"{problem}; {'run it again' if self._server else REMEDY}") from error
        print_warning(f"{problem}, which does not show how this run ended; nothing else is lost")
        if isinstance(self._error, TerminationSignal):
            raise Terminated(self._error.signal) from None
        if self._error is not None:
            raise self._error from None

    @contextmanager
    def open(self) -> Iterator[None]:
        """The block runs the stages, inside a Prefect flow. Its end is the end of the run."""
        try:
            with flow_run_note(self._layout.root, flow_run.id):
                yield from self._open()
        except BaseException as error:
            self._error = error
            if isinstance(error, (KeyboardInterrupt, Terminated, TerminationSignal)):
                print(f"interrupted {self._place}; the same command goes on there", file=sys.stderr)
            raise
        finally:
            self._over = True
            if self._server:
                self._server.restart_if_gone()  # else Prefect waits for it in vain

    @property
    def _place(self) -> str:
        return f"in {self._stage}" if self._stage else "before the first stage"

    def _open(self) -> Iterator[None]:
        log_to_prefect()
        root, layout = self._layout.root, self._layout
        self._history = history = RunHistory(layout, self.params, str(flow_run.id), scheduled=self._line is not None)
        about = {"prefect.flow_run_id": str(flow_run.id), WORKSPACE: workspace(root), "sandbox_tier": sandbox_tier()}
        about |= {RUN_NAME: history.entry.name} | problems_tag(root, self.params)
        differ = {CHANGED: history.changes, OVERRIDES: overrides(root, self.params)}
        about |= {tag: redacted(text) for tag, text in differ.items() if text}
        self._recorder = recorder = Recorder(layout, self.params, about)
        publish_name(history.entry.name)
        try:
            with (
                handle_as_command(),
                ShardRunner(self.params.machine.runner, self.params.machine.device) as runner,
                use_fan_out(runner),
                keep_server(),
            ):
                self.breaches = check_contract(layout, self.params)
                for breach in self.breaches:
                    print_warning(breach)
                self._pipeline.update_sources()
                yield
                # Only now is dvc.lock that of the run: `git checkout` in another terminal may have replaced it.
                self._pipeline.check_lock(result.stage_id for result in self.results)
                save_lock(root)
                self.record = publish_page(layout, recorder, history.entry.number)
        except BaseException as error:
            line = failure_line(error) if isinstance(error, Exception) else f"interrupted {self._place}"
            history.fail(line, recorder.finish("FAILED"))
            raise
        # Outside of the block above: a run whose stages are done has succeeded, whatever its records come to.
        self._finish(history, recorder, self.record)

    def _finish(self, history: RunHistory, recorder: Recorder, record: RunRecord | None) -> None:
        """Complete the run's records in the history, the tracker and Prefect."""
        line = self._line() if self._line else read_json(self._layout.promotion, Promotion).reason
        history.finish(line, computed=len(self.cached) < len(self.results))
        tags = {RUN_NAME: history.entry.name}
        summary = summary_of(record) if record else None
        if summary:
            tags[DESCRIPTION] = summary
        if self._line:
            tags["line"] = line
        recorder.close("FINISHED", **tags)  # `wait` comes after the report, which a slow tracker does not hold up
        if self._server:
            self._server.restart_if_gone()
        publish_summary(self._layout, recorder, history.entry.name, summary)

    def run(self, stage_id: str) -> None:
        """Bring one stage up to date, in a Prefect task of its name, and record it."""
        self._stage, recorder = stage_id, self._recorder
        assert recorder is not None

        def compute() -> StageResult:
            self.results.append(self._pipeline.run(stage_id, before=recorder.follow_steps))
            return self.results[-1]

        with TagsContext(current_tags=set()):  # Prefect asks its server about the limit of each tag of a task
            self._task.with_options(name=stage_of(stage_id), task_run_name=stage_id)(compute)
        result = self.results[-1]
        recorder.stage(stage_id, result.seconds, result.cached, result.deps, result.outs)
        self._report(result)

    @property
    def seconds(self) -> dict[str, float]:
        return {result.stage_id: result.seconds for result in self.results}

    @property
    def cached(self) -> set[str]:
        return {result.stage_id for result in self.results if result.cached}

    def wait(self) -> None:
        """Wait until the tracker has all of the run."""
        if self._recorder and self._history:
            self._history.set_tracked_run(self._recorder.wait())


def retry_delays(schedule: Scheduling) -> list[float]:
    """Seconds before each further attempt of a stage: doubled each time, up to an hour."""
    return [min(DELAY * 2**number, LONGEST_DELAY) for number in range(schedule.retries)]


def sandbox_tier() -> str:
    """The sandbox of this machine, for the record; without one, the stages that run programs raise the error."""
    try:
        return probe_tier()[0]
    except GraftError:
        return "none"
