"""Write a run to MLflow: the messages that are pending, and what the store has accepted."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tasks.errors import GraftError
from tasks.tracking.metrics import (
    LONGEST,
    MINUTES,
    LiveSteps,
    headline_metrics,
    log,
    make_metrics,
    milliseconds,
    round_metrics,
    row_batches,
    step_points,
    unknown_headline,
)
from tasks.tracking.mlflow_process import REMEDY
from tasks.tracking.registry import follow, register
from tasks.tracking.store import store_lock
from tasks.tracking.tags import RUN_NAME


class MlflowLedger:
    """The messages of a run so far, and which of them MLflow has accepted."""

    def __init__(self, uri: str, experiment: str) -> None:
        self._uri, self._name = uri, experiment
        self._start: dict[str, Any] | None = None  # of the parent run; None if only the champion is to be updated
        self._pending: list[dict[str, Any]] = []
        self._runs: dict[str, str] = {}  # stage_id → run id; "" is the parent
        self._live: dict[str, LiveSteps] = {}  # stage_id → its steps, if it was computed
        self._client: Any = None
        self.experiment = ""  # its id

    @property
    def has_run(self) -> bool:
        """True if there is a run to record, and not only a champion."""
        return self._start is not None

    @property
    def run_id(self) -> str | None:
        return self._runs.get("")

    @property
    def pause(self) -> float | None:
        """Seconds until rows of a stage that is running are to be looked for; None if no such stage runs."""
        return min((live.pause for live in self._live.values() if live.running), default=None)

    def add(self, message: dict[str, Any]) -> None:
        """Add a message to the next delivery."""
        match message["kind"]:
            case "start":
                self._start = message
            case "rows":
                self._live[message["stage_id"]] = LiveSteps(Path(message["path"]), message["time"])
            case _:
                self._pending.append(message)

    def deliver(self) -> list[str]:
        """Send all pending messages; returns an error for each that remains pending."""
        errors: list[str] = []
        if self._attempt(self._open, errors) and self._attempt(self._begin, errors):
            self._pending = [m for m in self._pending if not self._attempt(partial(self._send, m), errors)]
            for stage_id, live in self._live.items():
                if not self._attempt(partial(self._record_live, stage_id, live), errors):
                    live.pause = LONGEST
        return errors

    def _attempt(self, action: Callable[[], None], errors: list[str]) -> bool:
        """True if MLflow accepted it. Its stores raise any exception of their database or socket."""
        try:
            action()
        except GraftError as error:
            errors.append(str(error))
            return False
        except Exception as error:  # noqa: BLE001 (reported by Recorder.finish)
            line = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"[:300]
            errors.append(f"{line}; {REMEDY}" if "Current state is deleted" not in line else self._deletion())
            return False
        return True

    def _deletion(self) -> str:
        """What a person deleted on MLflow's page while the run was recorded, and the command that restores it."""
        if self._client.get_experiment(self.experiment).lifecycle_stage == "deleted":
            return deleted_experiment(self._name, self.experiment)
        return f"its run was deleted; restore it: mlflow runs restore --run-id {self.run_id}"

    def _open(self) -> None:
        """Open the store, and create the experiment, once. Raises GraftError if the experiment was deleted."""
        if self.experiment:
            return
        from mlflow import MlflowClient, set_tracking_uri

        set_tracking_uri(self._uri)
        with store_lock(self._uri):
            self._client = MlflowClient(self._uri)
            number = experiment_id(self._client, self._name)
        if self._client.get_experiment(number).lifecycle_stage == "deleted":
            raise GraftError(deleted_experiment(self._name, number))
        self.experiment = number

    def _begin(self) -> None:
        """Create the parent run, once."""
        if self._start is None or "" in self._runs:
            return
        tags = self._start["tags"]
        start = milliseconds(self._start["time"])
        run = self._client.create_run(self.experiment, start, run_name=tags.get(RUN_NAME))
        unknown = make_metrics(unknown_headline(self._start["ks"]), self._start["time"])
        log(self._client, run.info.run_id, self._start["params"], tags, unknown)
        self._runs[""] = run.info.run_id

    def _send(self, message: dict[str, Any]) -> None:
        match message["kind"]:
            case "stage":
                self._record_stage(message)
            case "steps":
                self._record_steps(message)
            case "file":
                self._client.log_artifact(self._runs[""], message["path"], message["folder"])
            case "champion":
                follow(self._client, self.experiment, self._name, message["champion"], message["challenger"])
            case "finish":
                self._finish(message)

    def _finish(self, message: dict[str, Any]) -> None:
        assert self._start is not None
        for stage_id, live in self._live.items():
            if live.running and stage_id in self._runs:
                self._client.set_terminated(self._runs[stage_id], message["status"], milliseconds(message["time"]))
            live.running = False
        minutes = make_metrics({MINUTES: (message["time"] - self._start["time"]) / 60}, message["time"])
        log(self._client, self._runs[""], tags=message["tags"], metrics=minutes)
        self._client.set_terminated(self._runs[""], message["status"], milliseconds(message["time"]))

    def _record_stage(self, message: dict[str, Any]) -> None:
        """A child run with all that the stage measured; the parent gets the headline and what it has of each round."""
        stage_id, metrics, time = message["stage_id"], message.get("metrics", {}), message["time"]
        stage, _, part = stage_id.partition("@")
        round = int(part) if part.isdigit() else 0
        digests = {f"{kind}.{path}": md5 for kind in ("dep", "out") for path, md5 in message[f"{kind}s"].items()}
        tags = {"stage": stage, "round": part, "cached": json.dumps(message["cached"]), **digests}
        child = self._child(stage_id, time - message["seconds"])
        measured = {**metrics, "seconds": message["seconds"]}
        log(self._client, child, tags=tags, metrics=make_metrics(measured, time, round))
        self._client.set_terminated(child, "FINISHED", milliseconds(time))
        if stage_id in self._live:
            self._live[stage_id].running = False
        if "model" in message:
            register(self._client, self.experiment, self._name, self._runs[""], message["model"])
        summary = {**round_metrics(stage, metrics), **headline_metrics(message.get("headline", {}))}
        log(self._client, self._runs[""], metrics=make_metrics(summary, time, round))

    def _child(self, stage_id: str, start: float) -> str:
        """The run of a stage, created if there is none."""
        from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

        if stage_id not in self._runs:
            parent = {MLFLOW_PARENT_RUN_ID: self._runs[""]}
            run = self._client.create_run(self.experiment, milliseconds(start), parent, stage_id)
            self._runs[stage_id] = run.info.run_id
        return self._runs[stage_id]

    def _record_live(self, stage_id: str, live: LiveSteps) -> None:
        """The new rows of a stage that is running, on its own run."""
        if rows := live.rows():
            live.log(self._client, self._child(stage_id, live.start), rows)

    def _record_steps(self, message: dict[str, Any]) -> None:
        """The rows of a stage's table that its run does not have yet."""
        stage_id = message["stage_id"]
        logged = self._live[stage_id].logged if stage_id in self._live else 0
        for some in row_batches(message["rows"][logged:]):
            self._client.log_batch(self._runs[stage_id], metrics=step_points(some, message["time"]))


def experiment_id(client: Any, name: str) -> str:
    """The id of the experiment, which is created if there is none."""
    from mlflow.exceptions import MlflowException

    try:
        return str(client.create_experiment(name))
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    return str(client.get_experiment_by_name(name).experiment_id)


def deleted_experiment(name: str, number: str) -> str:
    """The problem and its remedy."""
    return f"its experiment {name!r} was deleted; restore it: mlflow experiments restore -x {number}"
