"""The scheduled run: from the champion on, with the problems that are there now, and one line about what came of it.

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

from flows.dvc_stages.pipeline import DvcPipeline
from flows.prefect_runs.crashed_runs import mark_crashed, noted, tag_run
from flows.preflight import CHAMPION, project_root, write_params
from flows.process import settings
from flows.process.exit_codes import line_and_code
from flows.process.orphaned_output import outlive_readers
from flows.process.workspace_lock import WorkspaceLockedError, exclusive_lock
from flows.retrain import run_stages
from flows.run_session import RunSession
from flows.scheduling.changes import Seen, base_of, news, seen_now
from flows.scheduling.history import add_entry, entries
from flows.stages.result import StageResult
from tasks.artifacts import read_json, write_json
from tasks.errors import one_line
from tasks.layout import Layout
from tasks.params.file import load_params
from tasks.records import Promotion
from tasks.redaction import redacted


@flow(name="scheduled", persist_result=False)
def scheduled() -> State[None]:
    """Retrain from the champion, if anything is new since the last scheduled run; the message of the state is the line.

    Never beside another run: waits for its end or leaves it at that, as `schedule.overlap` says.
    """
    settings.set_environment()  # a worker's process begins here; no stage has imported torch by now
    outlive_readers()
    root = project_root()
    wait = load_params(root / "params.yaml").schedule.overlap == "wait"
    with noted(root, flow_run.id):
        tag_run(root, str(flow_run.id), list(flow_run.tags))
        try:
            with exclusive_lock(root, "a scheduled run", say if wait else None):
                line = retrain_where_new(root)
        except WorkspaceLockedError as busy:
            line = f"skipped: {busy}"
    say(line)
    return Completed(message=line)


def retrain_where_new(root: Path) -> str:
    """The line. A run that fails goes into the history, too, and is tried again the next time."""
    layout, params = Layout(root), load_params(root / "params.yaml")
    mark_crashed(root, params.tracking, alone=True)
    try:
        now = seen_now(layout, params)
        changes = news(_last_seen(root), now)
        if not changes:
            return f"nothing new since {_last_time(root)}: no problems, params or sources; nothing was done"
        mlflow_run, line = _retrained(layout, base_of(layout, params), changes)
    except Exception as error:
        failed = one_line(redacted(f"failed: {line_and_code(error)[0]}"))
        add_entry(root, False, failed, str(flow_run.id), None)
        say(failed)  # Prefect keeps it, but tells nobody who looks at the terminal
        raise
    add_entry(root, True, line, str(flow_run.id), mlflow_run)
    write_json(_seen_file(root), now)
    create_markdown_artifact(line, key="line", description="What changed, and what came of it")
    return line


def _retrained(layout: Layout, base: str, changes: list[str]) -> tuple[str | None, str]:
    """The MLflow run and the line, of a whole run from `base`."""
    assignments = [f"policy.base={base}"] if base == CHAMPION else []
    params = write_params(layout.root, assignments, say)

    def line() -> str:
        reason = read_json(layout.promotion, Promotion).reason
        return redacted(f"{'; '.join(changes)}. {reason[:1].upper()}{reason[1:]}")

    session = RunSession(DvcPipeline(layout.root, seconds=params.schedule.seconds), params, print_result, line)
    run_stages(session)
    return session.recorded(), line()


def _last_seen(root: Path) -> Seen | None:
    return read_json(_seen_file(root), Seen) if _seen_file(root).exists() else None


def _last_time(root: Path) -> str:
    done = [entry.when for entry in entries(root) if entry.done]
    return done[-1] if done else "the last scheduled run"


def _seen_file(root: Path) -> Path:
    return root / ".graft" / "seen.json"


def print_result(result: StageResult) -> None:
    """The line of a stage that is done."""
    say(f"{result.address:<16} {result.how:<10} {result.seconds:7.1f} s")


def say(line: str) -> None:
    """On the output of whoever started the run, at once."""
    with suppress(BrokenPipeError):  # they are gone, a moment before `outlive_readers` hears of it
        print(line, flush=True)
