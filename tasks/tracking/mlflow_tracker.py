"""MLflow as the tracker: runs within its limits on names, values and the size of a call, and a registered model.

The model has a version for the policy of each run, the champion's with the alias `champion`, that of a policy that
waits for approval with the alias `challenger`. `graft champion` has the history of champions.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

from tasks.core.sharding import shards_of
from tasks.errors import GraftError
from tasks.tracking.metrics import POINTS_PER_CALL
from tasks.tracking.store import store_lock
from tasks.tracking.tags import COMMIT, DESCRIPTION, RUN_NAME, SOURCE, USER
from tasks.tracking.tracker import Metric, RunStatus, TrackedRun, Tracker

TAGS_PER_CALL = 100  # MLflow's limit for one log_batch
VALUE_LENGTH = 5000  # MLflow refuses longer tags and params

OWN_TAGS = {
    RUN_NAME: "mlflow.runName",
    DESCRIPTION: "mlflow.note.content",
    SOURCE: "mlflow.source.name",
    USER: "mlflow.user",
}
"""Tag → MLflow's own name of it."""


class MlflowTracker(Tracker):
    """A store of MLflow: a file, a database or a server."""

    def __init__(self, uri: str, experiment: str) -> None:
        """Open the store, and create the experiment. Raises GraftError if the experiment was deleted."""
        super().__init__(uri, experiment)
        from mlflow import MlflowClient, set_tracking_uri

        set_tracking_uri(uri)
        with store_lock(uri):
            self._client: Any = MlflowClient(uri)
            self.experiment_id = experiment_id(self._client, experiment)
        self._parent = ""
        if self._is_experiment_deleted():
            raise GraftError(self._deletion())

    def start(self, run: TrackedRun) -> str:
        from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

        parent = {MLFLOW_PARENT_RUN_ID: run.parent} if run.parent else None
        with self._explained():
            made = self._client.create_run(self.experiment_id, milliseconds(run.time), parent, run.name or None)
            run_id = str(made.info.run_id)
            self._parent = run.parent or run_id
            # its page lists metrics in the order in which they first came, and does not show those that are NaN
            unknown = [Metric(name, math.nan, run.time, 0) for name in run.headline]
            self._log(run_id, run.params, run.tags, unknown)
        return run_id

    def log(self, run_id: str, tags: Mapping[str, str], points: Sequence[Metric]) -> None:
        with self._explained():
            self._log(run_id, {}, tags, points)

    def artifact(self, run_id: str, path: str, folder: str | None) -> None:
        with self._explained():
            self._client.log_artifact(run_id, path, folder)

    def end(self, run_id: str, status: RunStatus, time: float) -> None:
        with self._explained():
            self._client.set_terminated(run_id, status, milliseconds(time))

    def register(self, run_id: str, model: Mapping[str, Any]) -> None:
        with self._explained():
            register(self._client, self.experiment_id, self.experiment, run_id, model)

    def follow(self, champion: str | None, challenger: str | None) -> None:
        with self._explained():
            follow(self._client, self.experiment_id, self.experiment, champion, challenger)

    def _log(self, run_id: str, params: Mapping[str, str], tags: Mapping[str, str], points: Sequence[Metric]) -> None:
        """In as few calls as MLflow allows."""
        from mlflow import entities

        metrics = [entities.Metric(valid_name(p.name), p.value, milliseconds(p.time), p.step) for p in points]
        numbers = shards_of(metrics, POINTS_PER_CALL)
        named = shards_of([entities.Param(valid_name(k), v[:VALUE_LENGTH]) for k, v in params.items()], TAGS_PER_CALL)
        texts = mlflow_tags(tags)
        tagged = shards_of([entities.RunTag(valid_name(k), v[:VALUE_LENGTH]) for k, v in texts.items()], TAGS_PER_CALL)
        for some in zip_longest(numbers, named, tagged, fillvalue=()):
            self._client.log_batch(run_id, *some)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise GraftError with the remedy for what a person deleted on MLflow's page while the run was recorded."""
        from mlflow.exceptions import MlflowException

        try:
            yield
        except MlflowException as error:
            if "Current state is deleted" in str(error):
                raise GraftError(self._deletion()) from error
            raise

    def _deletion(self) -> str:
        """What was deleted, and the command that restores it."""
        if self._is_experiment_deleted():
            restore = f"mlflow experiments restore -x {self.experiment_id}"
            return f"its experiment {self.experiment!r} was deleted; restore it: {restore}"
        return f"its run was deleted; restore it: mlflow runs restore --run-id {self._parent}"

    def _is_experiment_deleted(self) -> bool:
        return bool(self._client.get_experiment(self.experiment_id).lifecycle_stage == "deleted")


def experiment_id(client: Any, name: str) -> str:
    """The id of the experiment, which is created if there is none."""
    from mlflow.exceptions import MlflowException

    try:
        return str(client.create_experiment(name))
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    return str(client.get_experiment_by_name(name).experiment_id)


def mlflow_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Tags by the names under which MLflow's pages look for them."""
    named = {OWN_TAGS.get(name, name): text for name, text in tags.items()}
    if SOURCE in tags:
        named["mlflow.source.type"] = "PROJECT"
    if COMMIT in tags:
        named["mlflow.source.git.commit"] = tags[COMMIT]
    return named


def valid_name(name: str) -> str:
    """`name` with the characters that MLflow refuses, such as `@`, replaced."""
    return re.sub(r"[^\w\-. :/]", "_", name)


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def register(client: Any, experiment: str, name: str, run_id: str | None, model: Mapping[str, Any]) -> str:
    """The number of a policy's version, which is created if there is none.

    It refers to the folder that DVC stores: MLflow gets no copy of the weights, as its own copy of a peft model reloads
    with wrong ones.
    """
    from mlflow import create_external_model
    from mlflow.exceptions import MlflowException

    version = model["version"]
    known = client.search_model_versions(f"name = '{name}' and tag.version = '{version}'")
    if known:
        return str(known[0].version)
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    tags = model["tags"]
    card = create_external_model(f"policy-{version}", run_id, tags, model_type="policy", experiment_id=experiment)
    made = client.create_model_version(name, f"models:/{card.model_id}", run_id, tags, model_id=card.model_id)
    return str(made.version)


def follow(client: Any, experiment: str, name: str, champion: str | None, challenger: str | None) -> None:
    """Set the aliases `champion` and `challenger`; the latter is removed if no policy waits."""
    known = client.search_registered_models(f"name = '{name}'")
    aliases = known[0].aliases if known else {}
    for alias, version in (("champion", champion), ("challenger", challenger)):
        if version is not None:
            tags = {"version": version, "path": f"{alias}/policy"}
            number = register(client, experiment, name, None, {"version": version, "tags": tags})
            if aliases.get(alias) != number:
                client.set_registered_model_alias(name, alias, number)
    if challenger is None and "challenger" in aliases:
        client.delete_registered_model_alias(name, "challenger")
