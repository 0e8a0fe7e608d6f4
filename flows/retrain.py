"""A run of all stages as a Prefect flow.

DVC decides which stages are up to date (`flows/dvc_stages/pipeline.py`), so Prefect keeps no cache of its own: it runs
the stages as tasks named by their ids, shows those that DVC skipped as Cached, and keeps the history.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from prefect import flow

from flows.dvc_stages.pipeline import DvcPipeline
from flows.history.run_history import next_name
from flows.run_session import RunSession
from flows.stages.chain import stage_ids
from flows.stages.result import StageResult
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.redaction import redacted
from tasks.tracking.recorder import git_tags


def retrain(
    root: Path,
    params: Params,
    report: Callable[[StageResult], None],
    pull: bool = False,
    settings: Sequence[str] = (),
    preset: str | None = None,
) -> RunSession:
    """Run the flow once, in this process. The caller holds the lock of the workspace.

    `pull`: see `DvcPipeline`. `settings` (`key=value`) and `preset`: as given to the command, for the flow run's page.
    """
    session = RunSession(DvcPipeline(root, pull, seconds=params.schedule.seconds), params, report)
    name = next_name(Layout(root), params)

    @flow(name="retrain", flow_run_name=lambda: name, persist_result=False, validate_parameters=False)
    def retrain_flow(preset: str, settings: str, base: str, rounds: int, commit: str) -> None:  # noqa: ARG001
        """The parameters are for the flow run's page; Prefect stores them, so they are few and short."""
        run_stages(session)

    with session.connect():
        retrain_flow(
            preset or "none",
            redacted(" ".join(settings)) or "none",
            redacted(params.policy.base),
            params.rounds.last,
            commit_of(git_tags(root)),
        )
    return session


def commit_of(tags: Mapping[str, str]) -> str:
    """`58dd976f` from the tags of a run, with a note of changes that are not committed; "none" outside a repository."""
    changes = " with uncommitted changes" if tags.get("git_dirty") == "true" else ""
    return f"{tags['git_commit'][:8]}{changes}" if "git_commit" in tags else "none"


def run_stages(session: RunSession) -> None:
    """Bring every stage up to date, in order. Stops at the first one that fails."""
    with session.open():
        for stage_id in stage_ids(session.params.rounds.last):
            session.run(stage_id)
