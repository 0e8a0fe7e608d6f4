"""Write a run to its tracker: the messages that are pending, and what the tracker has accepted."""

import json
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from tasks.errors import GraftError
from tasks.tracking.metrics import (
    LONGEST,
    MINUTES,
    LiveSteps,
    headline_metrics,
    headline_names,
    make_points,
    round_metrics,
    row_batches,
    step_points,
)
from tasks.tracking.tags import RUN_NAME
from tasks.tracking.tracker import TrackedRun, Tracker, open_tracker
from tasks.tracking.worker_process import REMEDY


class RunLedger:
    """The messages of a run so far, and which of them the tracker has accepted."""

    def __init__(self, tracker: str, uri: str, experiment: str) -> None:
        """The values of `machine.tracking`."""
        self._store = tracker, uri, experiment
        self._start: dict[str, Any] | None = None  # of the parent run; None if only the champion is to be updated
        self._pending: list[dict[str, Any]] = []
        self._runs: dict[str, str] = {}  # stage_id → run id; "" is the parent
        self._live: dict[str, LiveSteps] = {}  # stage_id → its steps, if it was computed

    @cached_property
    def _tracker(self) -> Tracker:
        """It is opened at the first use, and at the next one again if that fails."""
        return open_tracker(*self._store)

    @property
    def has_run(self) -> bool:
        """True if there is a run to record, and not only a champion."""
        return self._start is not None

    @property
    def run_id(self) -> str | None:
        return self._runs.get("")

    @property
    def experiment_id(self) -> str:
        return self._tracker.experiment_id if self._runs else ""

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
        if self._attempt(self._begin, errors):
            self._pending = [m for m in self._pending if not self._attempt(partial(self._send, m), errors)]
            for stage_id, live in self._live.items():
                if not self._attempt(partial(self._record_live, stage_id, live), errors):
                    live.pause = LONGEST
        return errors

    def _attempt(self, action: Callable[[], None], errors: list[str]) -> bool:
        """True if the tracker accepted it. It raises any exception, of a database or a socket for instance."""
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

    def _begin(self) -> None:
        """Open the tracker and create the parent run, once."""
        tracker = self._tracker
        if self._start is None or "" in self._runs:
            return
        params, tags, headline = self._start["params"], self._start["tags"], headline_names(self._start["ks"])
        run = TrackedRun(tags.get(RUN_NAME, ""), self._start["time"], None, params, tags, headline)
        self._runs[""] = tracker.start(run)

    def _send(self, message: dict[str, Any]) -> None:
        match message["kind"]:
            case "stage":
                self._record_stage(message)
            case "steps":
                self._record_steps(message)
            case "file":
                self._tracker.artifact(self._runs[""], message["path"], message["folder"])
            case "champion":
                self._tracker.follow(message["champion"], message["challenger"])
            case "finish":
                self._finish(message)

    def _finish(self, message: dict[str, Any]) -> None:
        assert self._start is not None
        for stage_id, live in self._live.items():
            if live.running and stage_id in self._runs:
                self._tracker.end(self._runs[stage_id], message["status"], message["time"])
            live.running = False
        minutes = make_points({MINUTES: (message["time"] - self._start["time"]) / 60}, message["time"])
        self._tracker.log(self._runs[""], message["tags"], minutes)
        self._tracker.end(self._runs[""], message["status"], message["time"])

    def _record_stage(self, message: dict[str, Any]) -> None:
        """A child run with all that the stage measured; the parent gets the headline and what it has of each round."""
        stage_id, metrics, time = message["stage_id"], message.get("metrics", {}), message["time"]
        stage, _, part = stage_id.partition("@")
        round = int(part) if part.isdigit() else 0
        digests = {f"{kind}.{path}": md5 for kind in ("dep", "out") for path, md5 in message[f"{kind}s"].items()}
        tags = {"stage": stage, "round": part, "cached": json.dumps(message["cached"]), **digests}
        child = self._child(stage_id, time - message["seconds"])
        measured = {**metrics, "seconds": message["seconds"]}
        self._tracker.log(child, tags, make_points(measured, time, round))
        self._tracker.end(child, "FINISHED", time)
        if stage_id in self._live:
            self._live[stage_id].running = False
        if "model" in message:
            self._tracker.register(self._runs[""], message["model"])
        summary = {**round_metrics(stage, metrics), **headline_metrics(message.get("headline", {}))}
        self._tracker.log(self._runs[""], {}, make_points(summary, time, round))

    def _child(self, stage_id: str, start: float) -> str:
        """The run of a stage, created if there is none."""
        if stage_id not in self._runs:
            self._runs[stage_id] = self._tracker.start(TrackedRun(stage_id, start, self._runs[""]))
        return self._runs[stage_id]

    def _record_live(self, stage_id: str, live: LiveSteps) -> None:
        """The new rows of a stage that is running, on its own run."""
        if rows := live.rows():
            live.log(self._tracker, self._child(stage_id, live.start), rows)

    def _record_steps(self, message: dict[str, Any]) -> None:
        """The rows of a stage's table that its run does not have yet."""
        stage_id = message["stage_id"]
        logged = self._live[stage_id].logged if stage_id in self._live else 0
        for some in row_batches(message["rows"][logged:]):
            self._tracker.log(self._runs[stage_id], {}, step_points(some, message["time"]))
