"""Write a run to MLflow: the messages that are pending, and what the store has accepted."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from tasks.core.sqlite import creation_lock, sqlite_file
from tasks.errors import GraftError
from tasks.tracking.addresses import VIEW_TAG
from tasks.tracking.metrics import (
    LONGEST,
    MINUTES,
    LiveSteps,
    RunSummary,
    headline_metrics,
    log,
    make_metrics,
    milliseconds,
    row_batches,
    step_points,
    unknown_headline,
    valid_name,
)
from tasks.tracking.mlflow_process import REMEDY
from tasks.tracking.registry import create_card, follow, register
from tasks.tracking.tags import CURVES, HERE, LOCK, REPEATED, RUN_NAME, SOURCE, WORKSPACE
from tasks.tracking.trace_sample import read_sample
from tasks.tracking.traces import log_traces


class MlflowLedger:
    """The messages of a run so far, and which of them MLflow has accepted.

    Nothing is sent before something is computed: if that never happens, the run repeats an earlier one, which is noted
    on that one, if MLflow has it.
    """

    def __init__(self, uri: str, experiment: str) -> None:
        self._uri, self._name = uri, experiment
        self._start: dict[str, Any] | None = None  # of the parent run; None if only the champion is to be updated
        self._pending: list[dict[str, Any]] = []
        self._computed = False
        self._runs: dict[str, str] = {}  # stage_id → run id; "" is the parent
        self._cards: dict[int, str] = {}  # round → the LoggedModel of its policy
        self._versions: dict[str, str] = {}  # the same by the version of the policy
        self._summary = RunSummary()
        self._live: dict[str, LiveSteps] = {}  # stage_id → its steps, if it was computed
        self._left_out: list[str] = []  # files that could not be read, in words
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
            case "compute":
                self._computed = True
                if "rows" in message:
                    self._live[message["stage_id"]] = LiveSteps(Path(message["rows"]), message["time"])
            case _:
                self._pending.append(message)
                self._computed |= not message.get("cached", True)

    def deliver(self) -> list[str]:
        """Send all pending messages; returns an error for each that remains pending, and for what was left out."""
        errors: list[str] = []
        if not self._attempt(self._open, errors) or self._is_held():
            return errors
        if self._attempt(self._begin, errors):
            self._pending = [m for m in self._pending if not self._attempt(partial(self._send, m), errors)]
            self._attempt(self._send_summary, errors)
            for stage_id, live in self._live.items():
                if not self._attempt(partial(self._record_live, stage_id, live), errors):
                    live.pause = LONGEST
        return errors + self._left_out

    def _attempt(self, action: Callable[[], None], errors: list[str]) -> bool:
        """True if MLflow accepted it. Its stores raise any exception of their database or socket."""
        try:
            action()
        except GraftError as error:
            errors.append(str(error))
            return False
        except Exception as error:  # noqa: BLE001 (reported by Recorder.finish)
            line = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"[:300]
            errors.append(f"{line}; {REMEDY}")
            return False
        return True

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
            raise GraftError(
                f"its experiment {self._name!r} was deleted; restore it: mlflow experiments restore -x {number}"
            )
        self.experiment = number

    def _is_held(self) -> bool:
        """True as long as the run may turn out to repeat another one."""
        ended = any(message["kind"] == "finish" for message in self._pending)
        return self.has_run and not (self._computed or ended)

    def _begin(self) -> None:
        """Create the parent run, or find the one that this run repeats; once."""
        if self._start is None or "" in self._runs:
            return
        finish = next((message for message in self._pending if message["kind"] == "finish"), None)
        if finish and not self._computed and (repeated := self._find_repeated(finish)):
            self._note_repetition(repeated, finish["time"])
            self._runs[""] = repeated.info.run_id
            self._pending = [message for message in self._pending if message["kind"] == "champion"]
            return
        tags = self._start["tags"]
        start = milliseconds(self._start["time"])
        run = self._client.create_run(self.experiment, start, run_name=tags.get(RUN_NAME))
        unknown = make_metrics(unknown_headline(self._start["ks"]), self._start["time"])
        log(self._client, run.info.run_id, self._start["params"], tags, unknown)
        self._runs[""] = run.info.run_id
        self._client.set_experiment_tag(self.experiment, VIEW_TAG, self._start["view"])

    def _find_repeated(self, finish: dict[str, Any]) -> Any:
        """The last run of the workspace that finished with the same `dvc.lock`."""
        workspace, lock = self._start["tags"].get(WORKSPACE) if self._start else None, finish["tags"].get(LOCK)
        if finish["status"] != "FINISHED" or not workspace or not lock or "'" in workspace:
            return None
        same = f"tags.{WORKSPACE} = '{workspace}' AND tags.{LOCK} = '{lock}' AND attributes.status = 'FINISHED'"
        runs = self._client.search_runs([self.experiment], same, max_results=1, order_by=["start_time DESC"])
        return runs[0] if runs else None

    def _note_repetition(self, run: Any, time: float) -> None:
        times = int(run.data.tags.get(REPEATED, "0").partition(" ")[0]) + 1
        last = datetime.fromtimestamp(time).astimezone().isoformat(sep=" ", timespec="seconds")
        self._client.set_tag(run.info.run_id, REPEATED, f"{times} time{'s' * (times > 1)}, last {last}")

    def _send(self, message: dict[str, Any]) -> None:
        match message["kind"]:
            case "stage":
                self._record_stage(message)
            case "steps":
                self._record_steps(message)
            case "tables":
                self._record_tables(message)
            case "traces":
                self._record_traces(message)
            case "file":
                self._client.log_artifact(self._runs[""], message["path"], message["folder"])
            case "champion":
                self._follow(message)
            case "finish":
                self._finish(message)

    def _finish(self, message: dict[str, Any]) -> None:
        assert self._start is not None
        self._summary.release_all()
        self._summary.add({MINUTES: (message["time"] - self._start["time"]) / 60}, message["time"])
        self._send_summary()
        for stage_id, live in self._live.items():
            if live.running and stage_id in self._runs:
                self._client.set_terminated(self._runs[stage_id], message["status"], milliseconds(message["time"]))
            live.running = False
        log(self._client, self._runs[""], tags=message["tags"])
        self._client.set_terminated(self._runs[""], message["status"], milliseconds(message["time"]))

    def _record_stage(self, message: dict[str, Any]) -> None:
        """A child run with all that the stage measured; the parent gets what its summary takes."""
        stage_id, metrics, time = message["stage_id"], message.get("metrics", {}), message["time"]
        stage, _, part = stage_id.partition("@")
        round = int(part) if part.isdigit() else 0
        digests = {f"{kind}.{path}": md5 for kind in ("dep", "out") for path, md5 in message[f"{kind}s"].items()}
        tags = {"stage": stage, "round": part, "cached": json.dumps(message["cached"]), **digests}
        child = self._child(stage_id, time - message["seconds"])
        measured = {**metrics, "seconds": message["seconds"]}
        log(self._client, child, tags=tags, metrics=make_metrics(measured, time, round))
        self._log_problems(child, message["deps"])
        self._client.set_terminated(child, "FINISHED", milliseconds(time))
        if stage_id in self._live:
            self._live[stage_id].running = False

        self._log_problems(self._runs[""], message["outs"])
        if "policy" in message:
            self._summary.add_model(round, self._card(round, message["policy"]))
        if "model" in message:
            self._register(message["model"])
        self._summary.add_stage(stage, round, metrics, time)
        if "headline" in message:
            final = self._versions.get(message.get("model", {}).get("version", ""))
            self._summary.add(headline_metrics(message["headline"]), time, final)

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

    def _card(self, round: int, policy: dict[str, str]) -> str:
        """The LoggedModel of a round's policy, which is created once."""
        assert self._start is not None
        if round not in self._cards:
            about = {"round": str(round)}
            tags = {**policy, **about, SOURCE: self._start["tags"].get(SOURCE, "")}
            self._cards[round] = create_card(self.experiment, f"round-{round}", self._runs[""], tags, about)
        self._versions.setdefault(policy["version"], self._cards[round])
        return self._cards[round]

    def _send_summary(self) -> None:
        if self.has_run:
            self._summary.send(self._client, self._runs[""])

    def _record_steps(self, message: dict[str, Any]) -> None:
        """The rows of a stage's table that its run does not have yet.

        Of a cached stage whose curves are in the store already, only the last row: the tag names the run that has them.
        A table has tens of thousands of points, and takes MLflow longer than all the rest of a run.
        """
        stage_id, rows = message["stage_id"], message["rows"]
        child = self._runs[stage_id]
        curves = self._curves(message["path"], message["md5"]) if message["cached"] else None
        logged = self._live[stage_id].logged if stage_id in self._live else 0
        for some in row_batches(rows[-1:] if curves else rows[logged:]):
            self._client.log_batch(child, metrics=step_points(some, message["time"]))
        self._client.set_tag(child, CURVES, curves or HERE)  # last: a run with the tag has all points

    def _record_traces(self, message: dict[str, Any]) -> None:
        """A sample of a round's completions as traces of the parent run."""
        files, number = (Path(message["trajectories"]), Path(message["selection"])), message["round"]
        try:
            sample = read_sample(*files, number, message["count"], message["seed"])
        except GraftError as error:
            self._left_out.append(f"traces of round {number} left out ({error})")
            return
        log_traces(self._uri, self.experiment, self._runs[""], sample, message["time"])

    def _curves(self, path: str, md5: str) -> str | None:
        """The run that has the curves of a table; None if there is none."""
        recorded = f"tags.`{valid_name(f'out.{path}')}` = '{md5}' AND tags.`{CURVES}` = '{HERE}'"
        runs = self._client.search_runs([self.experiment], recorded, max_results=1)
        return str(runs[0].info.run_id) if runs else None

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
        card = self._versions.get(model["version"])
        number = register(self._client, self.experiment, self._name, self._runs[""], model, card)
        self._client.set_registered_model_alias(self._name, "challenger", number)

    def _follow(self, succession: dict[str, Any]) -> None:
        """Update the registry from `champion/`, if there is a champion."""
        if succession["champion"] is not None:
            follow(self._client, self.experiment, self._name, succession["champion"], succession["history"])


def store_lock(uri: str) -> AbstractContextManager[None]:
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
