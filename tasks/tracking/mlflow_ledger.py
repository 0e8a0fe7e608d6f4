"""Write a run to MLflow: the messages that are pending, and what the store has accepted."""

import json
import re
from contextlib import nullcontext
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.core.sqlite import creation_lock, sqlite_file
from tasks.tracking.registry import follow, register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager


TAGS_PER_CALL = 100  # MLflow's limits for one log_batch
METRICS_PER_CALL = 800  # it takes 1000 of all kinds
VALUE_LENGTH = 5000  # MLflow refuses longer tags and params

CURVES = "curves"
"""Tag of a stage's run: the run that has its table as curves: `HERE`, or another one if the stage was cached."""

HERE = "here"


class Ledger:
    """The messages of a run so far, and which of them MLflow has accepted."""

    def __init__(self, uri: str, experiment: str) -> None:
        self._uri, self._name = uri, experiment
        self._start: dict[str, Any] | None = None  # of the parent run; None if only the champion is to be updated
        self._pending: list[dict[str, Any]] = []
        self._runs: dict[str, str] = {}  # stage_id → run id; "" is the parent
        self._on_parent: list[Any] = []  # metrics that the parent does not have yet
        self._client: Any = None
        self.experiment = ""  # its id

    @property
    def has_run(self) -> bool:
        """True if there is a run to record, and not only a champion."""
        return self._start is not None

    @property
    def run_id(self) -> str | None:
        return self._runs.get("")

    def add(self, message: dict[str, Any]) -> None:
        """Add a message to the next delivery."""
        if message["kind"] == "start":
            self._start = message
        else:
            self._pending.append(message)

    def deliver(self) -> list[str]:
        """Send all pending messages; returns an error for each that remains pending."""
        errors: list[str] = []
        if self._attempt(self._open, errors):
            self._pending = [m for m in self._pending if not self._attempt(partial(self._send, m), errors)]
            self._attempt(self._record_on_parent, errors)
        return errors

    def _attempt(self, action: "Callable[[], None]", errors: list[str]) -> bool:
        """True if MLflow accepted it. Its stores raise any exception of their database or socket."""
        try:
            action()
        except Exception as error:  # noqa: BLE001 (reported by Recorder.finish)
            errors.append(f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"[:300])
            return False
        return True

    def _open(self) -> None:
        """Create the experiment and the parent run, each once."""
        if not self.experiment:
            from mlflow import MlflowClient, set_tracking_uri

            set_tracking_uri(self._uri)
            with store_lock(self._uri):
                self._client = MlflowClient(self._uri)
                self.experiment = experiment_id(self._client, self._name)
        if self._start and "" not in self._runs:
            run = self._client.create_run(self.experiment, start_time=_milliseconds(self._start["time"]))
            self._log(run.info.run_id, self._start["time"], params=self._start["params"], tags=self._start["tags"])
            self._runs[""] = run.info.run_id

    def _send(self, message: dict[str, Any]) -> None:
        match message["kind"]:
            case "stage":
                self._record_stage(message)
            case "steps":
                self._record_steps(message)
            case "tables":
                self._record_tables(message)
            case "file":
                self._client.log_artifact(self._runs[""], message["path"], message["folder"])
            case "champion":
                self._follow(message)
            case "finish":
                self._finish(message)

    def _finish(self, message: dict[str, Any]) -> None:
        self._record_on_parent()
        self._log(self._runs[""], message["time"], tags=message["tags"])
        self._client.set_terminated(self._runs[""], message["status"], _milliseconds(message["time"]))

    def _record_stage(self, message: dict[str, Any]) -> None:
        """A child run; its metrics are also on the parent, where the rounds form curves."""
        from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

        stage_id, metrics = message["stage_id"], message.get("metrics", {})
        stage, _, part = stage_id.partition("@")
        step = int(part) if part.isdigit() else 0
        digests = {f"{kind}.{path}": md5 for kind in ("dep", "out") for path, md5 in message[f"{kind}s"].items()}
        tags = {"stage": stage, "round": part, "cached": json.dumps(message["cached"]), **digests}
        if stage_id not in self._runs:
            start = _milliseconds(message["time"] - message["seconds"])
            first = {MLFLOW_PARENT_RUN_ID: self._runs[""], **{valid_name(k): v[:VALUE_LENGTH] for k, v in tags.items()}}
            run = self._client.create_run(self.experiment, start, first, stage_id)
            self._runs[stage_id], tags = run.info.run_id, {}
        child = self._runs[stage_id]
        self._log(child, message["time"], tags=tags, metrics={**metrics, "seconds": message["seconds"]}, step=step)
        self._log_problems(child, message["deps"])
        self._client.set_terminated(child, "FINISHED", _milliseconds(message["time"]))

        self._log_problems(self._runs[""], message["outs"])
        on_parent = {parent_name(stage_id, name): value for name, value in metrics.items()}
        on_parent[f"seconds/{curve(stage_id)}"] = message["seconds"]
        self._on_parent += _metrics(on_parent, message["time"], step)
        if "model" in message:
            self._register(message["model"])

    def _record_on_parent(self) -> None:
        """The metrics of all stages since the last call, together: a call takes as long for one as for a thousand."""
        while self._on_parent:
            self._client.log_batch(self._runs[""], metrics=self._on_parent[:METRICS_PER_CALL])
            del self._on_parent[:METRICS_PER_CALL]

    def _record_steps(self, message: dict[str, Any]) -> None:
        """A stage's table on its own run as `step/…`; the step of all other metrics is the round.

        Of a cached stage whose curves are in the store already, only the last row: the tag names the run that has them.
        A table has tens of thousands of points, and takes MLflow longer than all the rest of a run.
        """
        from mlflow.entities import Metric, RunTag

        child, rows, now = self._runs[message["stage_id"]], message["rows"], _milliseconds(message["time"])
        curves = self._curves(message["path"], message["md5"]) if message["cached"] else None
        points = [
            Metric(valid_name(f"step/{name}"), value, now, round(row["step"]))
            for row in (rows[-1:] if curves else rows)
            for name, value in row.items()
            if name != "step"
        ]
        *before, last = [*_chunks(points, METRICS_PER_CALL)] or [[]]
        for some in before:
            self._client.log_batch(child, metrics=some)
        tag = RunTag(CURVES, curves or HERE)  # last: a run with the tag has all points
        self._client.log_batch(child, metrics=last, tags=[tag])

    def _curves(self, path: str, md5: str) -> str | None:
        """The run that has the curves of a table; None if there is none."""
        recorded = f"tags.`{valid_name(f'out.{path}')}` = '{md5}' AND tags.`{CURVES}` = '{HERE}'"
        found = self._client.search_runs([self.experiment], recorded, max_results=1)
        return str(found[0].info.run_id) if found else None

    def _record_tables(self, message: dict[str, Any]) -> None:
        """A stage's tables on its own run, in the format of `log_table`.

        `log_table` itself keeps ten decimals, which is none of an influence of 1e-9, and adds the rows again if a
        message is sent twice.
        """
        from mlflow.utils.mlflow_tags import MLFLOW_LOGGED_ARTIFACTS

        run_id, tables = self._runs[message["stage_id"]], message["tables"]
        for file, rows in tables.items():
            table = {"columns": list(rows[0]), "data": [list(row.values()) for row in rows]}
            self._client.log_dict(run_id, table, file)
        listed = json.dumps([{"path": file, "type": "table"} for file in tables])
        self._client.set_tag(run_id, MLFLOW_LOGGED_ARTIFACTS, listed)

    def _log_problems(self, run_id: str, digests: dict[str, str]) -> None:
        """The problem files among `digests` as MLflow datasets."""
        from mlflow.entities import Dataset, DatasetInput, InputTag
        from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT

        inputs = [
            DatasetInput(
                Dataset(Path(path).stem, md5, source_type="local", source=json.dumps({"uri": path})),
                [InputTag(MLFLOW_DATASET_CONTEXT, Path(path).stem)],
            )
            for path, md5 in digests.items()
            if path.startswith("run/problems/")
        ]
        if inputs:
            self._client.log_inputs(run_id, inputs)

    def _register(self, model: dict[str, Any]) -> None:
        """The policy as a version of the registered model, once; the alias `challenger` is on the latest."""
        number = register(self._client, self.experiment, self._name, self._runs[""], model)
        self._client.set_registered_model_alias(self._name, "challenger", number)

    def _follow(self, succession: dict[str, Any]) -> None:
        """Update the registry from `champion/`, if there is a champion."""
        if succession["champion"] is not None:
            follow(self._client, self.experiment, self._name, succession["champion"], succession["history"])

    def _log(
        self,
        run_id: str,
        time: float,
        params: dict[str, str] | None = None,
        tags: dict[str, str] | None = None,
        metrics: dict[str, float] | None = None,
        step: int = 0,
    ) -> None:
        from mlflow.entities import Param, RunTag

        numbers = _chunks(_metrics(metrics or {}, time, step), METRICS_PER_CALL)
        named = _chunks([Param(valid_name(k), v[:VALUE_LENGTH]) for k, v in (params or {}).items()], TAGS_PER_CALL)
        tagged = _chunks([RunTag(valid_name(k), v[:VALUE_LENGTH]) for k, v in (tags or {}).items()], TAGS_PER_CALL)
        for some in zip_longest(numbers, named, tagged, fillvalue=()):
            self._client.log_batch(run_id, *some)


def _metrics(values: dict[str, float], time: float, step: int) -> list[Any]:
    from mlflow.entities import Metric

    return [Metric(valid_name(name), value, _milliseconds(time), step) for name, value in values.items()]


def curve(stage_id: str) -> str:
    """Prefix of a stage's metrics on the parent run. The round is the step, so that the rounds form one curve."""
    stage, _, part = stage_id.partition("@")
    return stage if part.isdigit() or not part else f"{stage}_{part}"


def parent_name(stage_id: str, name: str) -> str:
    """Name of a stage's metric on the parent run: `epoch/…` is kept, others get the stage as a prefix."""
    return name if name.startswith("epoch/") else f"{curve(stage_id)}/{name}"


def valid_name(name: str) -> str:
    """`name` with the characters that MLflow refuses, such as `@`, replaced."""
    return re.sub(r"[^\w\-. :/]", "_", name)


def store_lock(uri: str) -> "AbstractContextManager[None]":
    """The lock for the creation of a store; none if it is not a sqlite file."""
    store = sqlite_file(uri)
    return creation_lock(store) if store else nullcontext()


def experiment_id(client: Any, name: str) -> str:
    """The id of the experiment, which is created if there is none."""
    from mlflow.exceptions import MlflowException

    try:
        return str(client.create_experiment(name))
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    return str(client.get_experiment_by_name(name).experiment_id)


def _chunks(values: list[Any], size: int) -> "Iterator[list[Any]]":
    for start in range(0, len(values), size):
        yield values[start : start + size]


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
