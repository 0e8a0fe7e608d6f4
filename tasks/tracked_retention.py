"""Old runs in MLflow: which may go, and taking them away."""

import os
from collections.abc import Callable, Set
from pathlib import Path
from typing import Any

from tasks.errors import GraftError
from tasks.params import Tracking
from tasks.redaction import redacted
from tasks.tracking import ENVIRONMENT

Runs = list[tuple[str, str]]
"""Id and name of each."""


def expired(
    root: Path, tracking: Tracking, keep: int, needed: Set[str], champions: Set[str]
) -> tuple[Runs, list[str], Callable[[], None]]:
    """The retrainings that may go, why others stay though they are old, and what takes those away.

    Of the experiment the last `keep` stay; and what runs, what ended with a `dvc.lock` that is `needed` (md5), and
    whose policy has an alias or was champion. Raises GraftError where MLflow does not answer.
    """
    if not tracking.uri or (tracking.uri.startswith("sqlite:///") and not _store(root, tracking.uri).is_file()):
        return [], [], lambda: None
    os.environ.update({name: value for name, value in ENVIRONMENT.items() if name not in os.environ})
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", str(max(1, round(tracking.seconds))))
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    try:
        client = MlflowClient(tracking.uri)
        experiment = client.get_experiment_by_name(tracking.experiment)
        if experiment is None:
            return [], [], lambda: None
        runs = _all(client, experiment.experiment_id)
        versions = list(client.search_model_versions(f"name = '{tracking.experiment}'"))
        aliased = set(client.get_registered_model(tracking.experiment).aliases.values()) if versions else set()
    except MlflowException as error:
        line = str(error).strip().partition("\n")[0][:200]
        raise GraftError(redacted(f"MLflow ({tracking.uri}): {line}; mend tracking.uri or start the server")) from None
    by_run: dict[str, list[Any]] = {}
    for version in versions:
        by_run.setdefault(version.run_id, []).append(version)
    goes, stays = [], []
    for run in [run for run in runs if "mlflow.parentRunId" not in run.data.tags][keep:]:
        own = by_run.get(run.info.run_id, [])
        why = _why_it_stays(run, own, aliased, needed, champions)
        if why:
            stays.append(f"{run.info.run_name}: {why}")
        else:
            goes.append(run)

    def remove() -> None:
        for run in goes:
            for version in by_run.get(run.info.run_id, []):
                client.delete_model_version(tracking.experiment, version.version)
            for child in runs:
                if child.data.tags.get("mlflow.parentRunId") == run.info.run_id:
                    client.delete_run(child.info.run_id)
            client.delete_run(run.info.run_id)

    return [(run.info.run_id, run.info.run_name) for run in goes], stays, remove


def _why_it_stays(run: Any, versions: list[Any], aliased: Set[str], needed: Set[str], champions: Set[str]) -> str:
    """Empty: it may go."""
    if run.info.status == "RUNNING":
        return "it is running"
    if run.data.tags.get("dvc_lock_md5") in needed:
        return "its dvc.lock is in the workspace, in git or of a kept run"
    if any(version.tags.get("champion_since") or version.tags.get("version") in champions for version in versions):
        return "its policy is or was champion"
    return "its policy has an alias" if any(version.version in aliased for version in versions) else ""


def _all(client: Any, experiment: str) -> list[Any]:
    """Every run that was not deleted, the latest first."""
    found: list[Any] = []
    token = None
    while True:
        page = client.search_runs([experiment], order_by=["attributes.start_time DESC"], page_token=token)
        found += page
        token = page.token
        if not token:
            return found


def _store(root: Path, uri: str) -> Path:
    return root / uri.removeprefix("sqlite:///")
