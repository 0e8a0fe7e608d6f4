"""The scheduled run: retrain from the latest policy with the present problems, and report the result in one line.

`scheduled` takes no arguments, so that any Prefect worker can start it in the project's folder; `prefect.yaml` has a
deployment for one, and `graft serve` is another that needs no worker.
"""

from contextlib import suppress
from pathlib import Path

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed

from flows.alerts.alert import Alert
from flows.alerts.channels import send
from flows.alerts.scheduled_alerts import alert_killed, scheduled_alerts
from flows.dvc_stages.pipeline import DvcPipeline
from flows.history.changes import RunInputs, read_scheduled_inputs, scheduled_base, summarise_change
from flows.history.run_history import add_failure, count_nothing_new, entries
from flows.prefect_runs.crashed_runs import flow_run_note, mark_crashed, tag_run
from flows.preflight import project_root, write_params
from flows.process import settings
from flows.process.exit_codes import failure_line
from flows.process.signals import outlive_readers
from flows.process.workspace_lock import SCHEDULED_RUN, WorkspaceLockedError, exclusive_lock
from flows.reports.publish import publish_name
from flows.retention.clean import clean
from flows.retrain import run_stages
from flows.run_session import RunSession
from flows.stages.user_files import CHAMPION, LATEST
from tasks.artifacts import read_json, write_json
from tasks.core.terminal import print_warning
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.file import load_params
from tasks.problems.digests import digest_problem_files
from tasks.promote.champion import read_history
from tasks.promote.latest import is_left_behind, keep_latest, latest_lock
from tasks.records.promotion import Promotion
from tasks.redaction import redacted


@flow(name="scheduled", persist_result=False, on_crashed=[alert_killed])
def scheduled() -> State[None]:
    """Retrain from the latest policy, if anything is new since the last scheduled run; the state's message is the line.

    It is skipped if another run is active: the next one takes what is new by then.
    """
    settings.set_environment()  # the process of a worker begins here, before any import of torch
    outlive_readers()
    root = project_root()
    with flow_run_note(root, flow_run.id):
        tag_run(root, str(flow_run.id), list(flow_run.tags))
        with scheduled_alerts(root):
            try:
                with exclusive_lock(root, SCHEDULED_RUN):
                    line = retrain_where_new(root)
            except WorkspaceLockedError as busy:
                line = f"skipped: {busy}"
                publish_name("skipped")
    say(line)
    return Completed(message=line)


def retrain_where_new(root: Path) -> str:
    """The line. A failed run is in the history, too, and is repeated at the next time."""
    layout = Layout(root)
    try:
        params = load_params(root / "params.yaml")
        mark_crashed(root, params.machine.tracking)
        with latest_lock(layout):
            pass  # repairs what a killed run left
        now = read_scheduled_inputs(layout, params)
        seen = _last_seen(root)
        changes = summarise_change(seen, now) if seen else "the first scheduled run here"
        if not changes:
            publish_name("nothing new")
            count_nothing_new(root)
            return f"nothing new since {_last_time(root)}: no problems, params or sources; nothing was done"
        line = _retrained(layout, scheduled_base(layout, params), changes)
    except Exception as error:
        failed = failure_line(error)
        publish_name(add_failure(root, failed, str(flow_run.id)))
        say(failed)  # Prefect stores it, but prints nothing
        raise
    write_json(_seen_file(root), now)
    create_markdown_artifact(line, key="line", description="What changed, and what came of it")
    return line


def _retrained(layout: Layout, base: str, changes: str) -> str:
    """Run the chain from `base`; returns the line."""
    assignments = [f"policy.base={base}"] if base in (CHAMPION, LATEST) else []
    params = write_params(layout.root, assignments, say)
    follows = params.machine.schedule.start == "latest"

    def line() -> str:
        decision = read_json(layout.promotion, Promotion)
        reason = f"{decision.reason[:1].upper()}{decision.reason[1:]}"
        if follows and is_left_behind(decision, read_history(layout.champion)):
            reason += "; left behind: the next run does not start from it"
        return redacted(f"{changes}. {reason}")

    session = RunSession(DvcPipeline(layout.root, seconds=params.machine.schedule.seconds), params, say, line)
    try:
        run_stages(session)
    finally:
        if session.breaches:
            send(layout.root, [Alert("contract.broken", "; ".join(session.breaches))])
    if follows:
        keep_latest(layout, read_json(layout.promotion, Promotion), params.environment.name)
    session.wait()
    if params.machine.schedule.keep:
        try:
            clean(layout, params.machine.schedule.keep, really=True, replies=False)
        except GraftError as error:  # the run has ended well
            print_warning(f"old results stay: {error}")
    return line()


def _last_seen(root: Path) -> RunInputs | None:
    return read_json(_seen_file(root), RunInputs) if _seen_file(root).exists() else None


def has_new_problems(root: Path) -> bool:
    """True if there are problem files, other than those of the last scheduled run that ended well."""
    with suppress(GraftError):  # no file yet, or params that the next run refuses
        files, seen = digest_problem_files(root, load_params(root / "params.yaml")), _last_seen(root)
        return bool(files) and (seen is None or seen.problems != files)
    return False


def _last_time(root: Path) -> str:
    done = [entry.when for entry in entries(root) if entry.done and entry.scheduled]
    return done[-1] if done else "the last scheduled run"


def _seen_file(root: Path) -> Path:
    return root / ".graft" / "seen.json"


def say(line: object) -> None:
    """Print at once."""
    with suppress(BrokenPipeError):  # the reader is gone, a moment before `outlive_readers` notices
        print(line, flush=True)
