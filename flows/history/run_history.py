"""History of the runs of a workspace: `.graft/history.jsonl`, a line for each, by hand or by schedule.

A run has its number and name from its start, and what came of it at its end. The name is
`12 · update.learning_rate 0.0005 · 0.495 → 0.575`: the number, what changed, and pass@1 greedy of the first and the
final policy on the test problems, once they are known. The caller of each function that writes holds the lock of the
workspace.
"""

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from flows.history.changes import RunInputs, list_changes, read_inputs, summarise_change
from tasks.artifacts import read_json, read_jsonl, write_json, write_jsonl
from tasks.core.metrics_files import read_numbers
from tasks.core.terminal import warn_of_errors
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.records.promotion import Promotion
from tasks.records.record import Record
from tasks.tracking.tags import lock_digest

LOST = "the history lacks how this run ended"
"""The warning on a disk that is full: it costs the history, never the run that has ended."""


class Entry(Record):
    """A run."""

    when: str  # its end, in local time; its start until it has ended
    done: bool | None  # False: it failed; None: it has not ended, or was killed
    line: str  # what came of it
    flow_run: str
    mlflow_run: str | None  # its id in whichever tracker
    number: int  # counted from 1
    name: str
    scheduled: bool
    dvc_lock_md5: str | None = None  # of a run that succeeded
    minutes: float | None = None
    decision: Promotion | None = None
    nothing_new: int = 0  # scheduled runs after it, before the next entry, that found nothing new
    nothing_new_until: str = ""  # the last of these, in local time


def entries(root: Path) -> list[Entry]:
    """All entries, the oldest first."""
    return read_jsonl(_file(root), Entry) if _file(root).exists() else []


def next_number(root: Path) -> int:
    """The number of the next run."""
    return max((entry.number for entry in entries(root)), default=0) + 1


def write_entry(root: Path, entry: Entry) -> None:
    """Add an entry, or replace the one of the same number."""
    by_number = {other.number: other for other in entries(root)} | {entry.number: entry}
    write_jsonl(_file(root), list(by_number.values()))


def count_nothing_new(root: Path) -> None:
    """Note at the last entry that a scheduled run found nothing new."""
    for last in entries(root)[-1:]:
        with warn_of_errors("the history lacks a run that found nothing new"):
            later = {"nothing_new": last.nothing_new + 1, "nothing_new_until": now()}
            write_entry(root, last.model_copy(update=later))


def find_number(root: Path, number: str) -> Entry | None:
    """The entry of this number."""
    return next((entry for entry in entries(root) if str(entry.number) == number), None)


def find_flow_run(root: Path, flow_run: str) -> Entry | None:
    """The entry of the run with this id in Prefect."""
    return next((entry for entry in entries(root) if entry.flow_run == flow_run), None)


def find_lock(root: Path, lock: bytes) -> Entry | None:
    """The first run that ended with this `dvc.lock`; later ones repeat it."""
    md5 = lock_digest(lock)
    return next((entry for entry in entries(root) if entry.dvc_lock_md5 == md5), None)


def now() -> str:
    """The local time of an entry."""
    return datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")


def _file(root: Path) -> Path:
    return root / ".graft" / "history.jsonl"


class RunHistory:
    """The entry of one run. The caller holds the lock of the workspace until the last call."""

    def __init__(self, layout: Layout, params: Params, flow_run: str, scheduled: bool) -> None:
        """Give the run its number and its name, and add it to the history."""
        self._layout, self._started = layout, time.monotonic()
        self._inputs = read_inputs(layout, params)
        before = inputs_of_last(layout)
        self.changes = list_changes(before, self._inputs) if before else ""
        self._change = _change_in_name(before, self._inputs)
        self.entry = _new_entry(layout.root, self._change, flow_run, scheduled)

    def finish(self, line: str, computed: bool) -> None:
        """Complete the name, and note what came of the run. `computed`: something was computed."""
        root = self._layout.root
        lock = (root / "dvc.lock").read_bytes()
        repeated = None if computed else find_lock(root, lock)
        if repeated:
            self._change = f"repeats {repeated.number}"
        headline = read_numbers(self._layout.headline, "promote")
        name = run_name(self.entry.number, self._change, headline)
        decision = read_json(self._layout.promotion, Promotion)
        self._end(done=True, line=line, name=name, dvc_lock_md5=lock_digest(lock), decision=decision)
        with warn_of_errors(LOST):
            write_json(_inputs_file(self._layout), self._inputs)

    def fail(self, line: str, tracked_run: str | None) -> None:
        """Note that the run failed or was interrupted; its name remains as it is."""
        self._end(done=False, line=line, mlflow_run=tracked_run)

    def set_tracked_run(self, run_id: str | None) -> None:
        """Note the id that the tracker gave it, once it is known."""
        if run_id != self.entry.mlflow_run:
            self._update(mlflow_run=run_id)

    def _end(self, **fields: object) -> None:
        self._update(when=now(), minutes=round((time.monotonic() - self._started) / 60, 1), **fields)

    def _update(self, **fields: object) -> None:
        self.entry = self.entry.model_copy(update=fields)
        with warn_of_errors(LOST):
            write_entry(self._layout.root, self.entry)


def next_name(layout: Layout, params: Params) -> str:
    """The name with which the next run begins."""
    return run_name(next_number(layout.root), _change_in_name(inputs_of_last(layout), read_inputs(layout, params)))


def _change_in_name(before: RunInputs | None, now: RunInputs) -> str:
    return summarise_change(before, now) or "same params"


def inputs_of_last(layout: Layout) -> RunInputs | None:
    """The inputs of the last run that succeeded."""
    file = _inputs_file(layout)
    return read_json(file, RunInputs) if file.exists() else None


def _inputs_file(layout: Layout) -> Path:
    return layout.root / ".graft" / "inputs.json"


def add_failure(root: Path, line: str, flow_run: str) -> str:
    """The name of a scheduled run that failed. If it did so before it had an entry, one is added."""
    begun = find_flow_run(root, flow_run)
    return (begun or _new_entry(root, "not begun", flow_run, scheduled=True, done=False, line=line)).name


def close_killed(root: Path, failure_of: Callable[[Entry], str | None]) -> list[Entry]:
    """Complete the entries of scheduled runs that have no end though none is at work; returns those of killed ones.

    `failure_of`: the line of a run that failed, if Prefect knows it: on a full disk the history does not.
    """
    killed = list[Entry]()
    for entry in entries(root):
        if entry.done is None and entry.scheduled:
            failure = failure_of(entry)
            closed = entry.model_copy(update={"done": False, "line": failure or "killed, or the machine went down"})
            write_entry(root, closed)
            killed += [] if failure else [closed]
    return killed


def _new_entry(
    root: Path, change: str, flow_run: str, scheduled: bool, done: bool | None = None, line: str = ""
) -> Entry:
    """An entry with the next number, which is added to the history."""
    number = next_number(root)
    entry = Entry(
        when=now(),
        done=done,
        line=line,
        flow_run=flow_run,
        mlflow_run=None,
        number=number,
        name=run_name(number, change),
        scheduled=scheduled,
    )
    write_entry(root, entry)
    return entry


def run_name(number: int, change: str, headline: Mapping[str, float] | None = None) -> str:
    """The name of a run. `headline`: the numbers of `run/metrics.json`, if it succeeded."""
    result = [format_result(headline["before"], headline["greedy"])] if headline else []
    return " · ".join([str(number), change, *result])


def format_result(before: float, after: float) -> str:
    """pass@1 greedy of the first and the final policy."""
    return f"{before:.3f} → {after:.3f}"
