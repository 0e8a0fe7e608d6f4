"""A run of all stages as a Prefect flow.

DVC decides which stages are up to date (`flows/dvc_stages/pipeline.py`), so Prefect keeps no cache of its own: it runs
the stages as tasks named by their ids, shows those that DVC skipped as Cached, and keeps the history.
"""

from collections.abc import Callable
from pathlib import Path

from prefect import flow

from flows.dvc_stages.pipeline import DvcPipeline
from flows.dvc_stages.reproduce import StageResult
from flows.history.run_history import next_name
from flows.run_session import RunSession
from flows.stages.dvc_yaml import stage_ids
from tasks.layout import Layout
from tasks.params.params import Params


def retrain(root: Path, params: Params, report: Callable[[StageResult], None]) -> RunSession:
    """Run the flow once, in this process. The caller holds the lock of the workspace."""
    pipeline = DvcPipeline(root, seconds=params.machine.schedule.seconds)
    session = RunSession(pipeline, params, report)
    name = next_name(Layout(root), params)

    @flow(name="retrain", flow_run_name=lambda: name, persist_result=False)
    def retrain_flow() -> None:
        run_stages(session)

    with session.connect():
        retrain_flow()
    return session


def run_stages(session: RunSession) -> None:
    """Bring every stage up to date, in order. Stops at the first one that fails."""
    with session.open():
        for stage_id in stage_ids(session.params.rounds.last):
            session.run(stage_id)
