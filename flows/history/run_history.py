"""The present run in the history: its number and name from its start, what came of it at its end."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from flows.history.changes import RunInputs, changed_params, read_inputs
from flows.history.entries import Entry, entries, find_lock, next_number, now, write_entry
from flows.history.run_names import other_inputs, run_name, summarise_change
from tasks.artifacts import read_json, write_json
from tasks.core.metrics_files import read_numbers
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.tracking.tags import lock_digest


class Changes(NamedTuple):
    """The params that differ between two runs, with both values, and the kinds of other inputs that differ."""

    params: dict[str, tuple[str, str]]
    others: list[str]

    def __str__(self) -> str:
        return ", ".join([*(f"{key}={new}" for key, (_, new) in self.params.items()), *self.others])


class RunHistory:
    """The entry of one run. The caller holds the lock of the workspace until the last call."""

    def __init__(self, layout: Layout, params: Params, flow_run: str, scheduled: bool) -> None:
        """Give the run its number and its name, and add it to the history."""
        self._layout = layout
        self._before = _inputs_of_last(layout)
        self._inputs = read_inputs(layout, params)
        self._change = summarise_change(self._before, self._inputs)
        number = next_number(layout.root)
        self.entry = Entry(
            when=now(),
            done=None,
            line="",
            flow_run=flow_run,
            mlflow_run=None,
            number=number,
            name=run_name(number, self._change),
            scheduled=scheduled,
        )
        write_entry(layout.root, self.entry)

    @property
    def changes(self) -> Changes | None:
        """What differs from the last run that succeeded; None if nothing does, or this is the first."""
        if self._before in (None, self._inputs):
            return None
        return Changes(changed_params(self._before, self._inputs), other_inputs(self._before, self._inputs))

    def finish(self, line: str, computed: bool) -> None:
        """Complete the name, and note what came of the run. `computed`: something was computed."""
        root = self._layout.root
        lock = (root / "dvc.lock").read_bytes()
        repeated = None if computed else find_lock(root, lock)
        if repeated:
            self._change = f"repeats {repeated.number}"
        headline = read_numbers(self._layout.headline, "promote")
        name = run_name(self.entry.number, self._change, headline)
        self._update(done=True, line=line, when=now(), name=name, dvc_lock_md5=lock_digest(lock))
        with _warn():
            write_json(_inputs_file(self._layout), self._inputs)

    def fail(self, line: str, mlflow_run: str | None) -> None:
        """Note that the run failed or was interrupted; its name remains as it is."""
        self._update(done=False, line=line, when=now(), mlflow_run=mlflow_run)

    def set_mlflow_run(self, run_id: str | None) -> None:
        """Note the id of its MLflow run, once it is known."""
        if run_id != self.entry.mlflow_run:
            self._update(mlflow_run=run_id)

    def _update(self, **fields: object) -> None:
        self.entry = self.entry.model_copy(update=fields)
        with _warn():
            write_entry(self._layout.root, self.entry)


def next_name(layout: Layout, params: Params) -> str:
    """The name with which the next run begins."""
    return run_name(next_number(layout.root), summarise_change(_inputs_of_last(layout), read_inputs(layout, params)))


def _inputs_of_last(layout: Layout) -> RunInputs | None:
    """Those of the last run that succeeded."""
    file = _inputs_file(layout)
    return read_json(file, RunInputs) if file.exists() else None


def _inputs_file(layout: Layout) -> Path:
    return layout.root / ".graft" / "inputs.json"


@contextmanager
def _warn() -> Iterator[None]:
    """A disk that is full costs the history, never the run that has ended."""
    try:
        yield
    except GraftError as error:
        print(f"warning: the history lacks how this run ended: {error}", file=sys.stderr)


def add_failure(root: Path, line: str, flow_run: str) -> str:
    """The name of a scheduled run that failed. If it did so before it had an entry, one is added."""
    found = next((entry for entry in entries(root) if entry.flow_run == flow_run), None)
    if found:
        return found.name
    number = next_number(root)
    name = run_name(number, "not begun")
    write_entry(
        root,
        Entry(
            when=now(),
            done=False,
            line=line,
            flow_run=flow_run,
            mlflow_run=None,
            number=number,
            name=name,
            scheduled=True,
        ),
    )
    return name
