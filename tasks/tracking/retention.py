"""Find and delete old runs in MLflow.

MLflow marks them; `mlflow gc` then removes all that is marked. It knows neither workspaces nor champions, and the
deletion of a run leaves its children, versions, models and traces.
"""

from collections.abc import Callable, Set
from pathlib import Path
from typing import Any

from tasks.params.machine import Tracking
from tasks.tracking.queries import has_store, open_store
from tasks.tracking.tags import CURVES, WORKSPACE
from tasks.tracking.traces import delete_traces

ABOUT = "old runs"
PARENT = "mlflow.parentRunId"

Runs = list[tuple[str, str]]
"""Id and name of each."""


def find_expired(
    root: Path, tracking: Tracking, workspace: str, keep: int, needed: Set[str], champions: Set[str]
) -> tuple[Runs, list[str], Callable[[], None]]:
    """The runs to delete, the reasons why other old runs are kept, and the function that deletes.

    Of the runs with the tag `workspace` the last `keep` are kept; so are those that are running, whose `dvc.lock` is
    `needed` (md5), or whose policy has an alias or was champion. Raises GraftError if MLflow does not answer.
    """
    if not has_store(root, tracking):
        return [], [], lambda: None
    with open_store(tracking, ABOUT) as client:
        experiment = client.get_experiment_by_name(tracking.experiment)
        if experiment is None:
            return [], [], lambda: None
        runs = _all(client, experiment.experiment_id)
        versions = list(client.search_model_versions(f"name = '{tracking.experiment}'"))
        aliased = set(client.get_registered_model(tracking.experiment).aliases.values()) if versions else set()
    by_run: dict[str, list[Any]] = {}
    for version in versions:
        by_run.setdefault(version.run_id, []).append(version)
    goes, stays = [], []
    parents = [run for run in runs if PARENT not in run.data.tags]
    ours = [run for run in parents if run.data.tags.get(WORKSPACE) == workspace]
    if len(ours) < len(parents):
        stays.append(f"{len(parents) - len(ours)} of another workspace, or of one that does not say which")
    for run in ours[keep:]:
        own = by_run.get(run.info.run_id, [])
        why = _why_it_stays(run, own, aliased, needed, champions)
        if why:
            stays.append(f"{run.info.run_name}: {why}")
        else:
            goes.append(run)
    referred = _referred(runs, {run.info.run_id for run in goes})
    stays += [f"{run.info.run_name}: it has curves of a run that stays" for run in goes if run.info.run_id in referred]
    goes = [run for run in goes if run.info.run_id not in referred]

    def remove() -> None:
        with open_store(tracking, ABOUT) as client:
            for run in goes:
                for version in by_run.get(run.info.run_id, []):
                    client.delete_model_version(tracking.experiment, version.version)
                own = f"source_run_id = '{run.info.run_id}'"
                for card in client.search_logged_models([run.info.experiment_id], own):
                    client.delete_logged_model(card.model_id)
                for child in runs:
                    if child.data.tags.get(PARENT) == run.info.run_id:
                        client.delete_run(child.info.run_id)
                delete_traces(client, run.info.experiment_id, run.info.run_id)
                client.delete_run(run.info.run_id)

    return [(run.info.run_id, run.info.run_name) for run in goes], stays, remove


def _why_it_stays(run: Any, versions: list[Any], aliased: Set[str], needed: Set[str], champions: Set[str]) -> str:
    """The reason to keep a run; empty to delete it."""
    if run.info.status == "RUNNING":
        return "it is running"
    if run.data.tags.get("dvc_lock_md5") in needed:
        return "its dvc.lock is in the workspace, in git or of a kept run"
    if any(version.tags.get("champion_since") or version.tags.get("version") in champions for version in versions):
        return "its policy is or was champion"
    return "its policy has an alias" if any(version.version in aliased for version in versions) else ""


def _referred(runs: list[Any], goes: Set[str]) -> Set[str]:
    """Runs among `goes` whose stages have curves that a kept run refers to."""
    parent = {run.info.run_id: run.data.tags.get(PARENT, run.info.run_id) for run in runs}
    curves = {run.data.tags.get(CURVES) for run in runs if parent[run.info.run_id] not in goes}
    return {parent[run_id] for run_id in curves if run_id in parent} & goes


def _all(client: Any, experiment: str) -> list[Any]:
    """Every run that is not deleted, the latest first."""
    found: list[Any] = []
    token = None
    while True:
        page = client.search_runs([experiment], order_by=["attributes.start_time DESC"], page_token=token)
        found += page
        token = page.token
        if not token:
            return found
