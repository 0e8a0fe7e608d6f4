"""Against real sqlite stores: the steps of a stage are there while it runs, and each once when it is done."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tasks.artifacts import write_json, write_text
from tasks.core.metrics_files import LiveRows
from tasks.layout import Layout
from tasks.tracking.ledger import RunLedger
from tasks.tracking.metrics import POINTS_PER_CALL, row_batches
from tasks.tracking.recorder import Recorder
from tasks.tracking.store import store_lock
from tasks.update.metrics import to_csv
from tests.support.stage_params import shipped_params

STAGE = "update@1"
ROWS = [{"step": number, "kl": number / 8, "clip_ratio/low_mean": 0.0} for number in range(1, 51)]
TABLE = f"run/plots/{STAGE}.csv"
PATIENCE = 120  # seconds for a worker on a busy machine


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    layout = Layout(tmp_path)
    write_json(layout.metrics("update", 1), {"kl": 0.5})
    write_text(layout.steps(1), to_csv(ROWS))
    return layout


def uri(layout: Layout) -> str:
    return f"sqlite:///{layout.root}/mlflow.db"


def started(layout: Layout) -> RunLedger:
    """A run in which the stage has begun."""
    ledger = RunLedger("mlflow", uri(layout), "graft")
    ledger.add({"kind": "start", "time": 1.8e9, "ks": [10], "params": {}, "tags": {}})
    ledger.add({"kind": "rows", "stage_id": STAGE, "path": str(layout.live_steps(STAGE)), "time": 1.8e9 + 1})
    return ledger


def children(layout: Layout) -> list[Any]:
    """The stage's runs, the latest first, each with the steps of its curve."""
    from mlflow import MlflowClient

    with store_lock(uri(layout)):  # the worker may be creating it
        client = MlflowClient(uri(layout))
    if not client.get_experiment_by_name("graft"):
        return []
    found = client.search_runs([client.get_experiment_by_name("graft").experiment_id], f"run_name = '{STAGE}'")
    return [(run.info.status, [p.step for p in client.get_metric_history(run.info.run_id, "step/kl")]) for run in found]


@pytest.mark.slow
def test_rows_are_added_as_they_appear_and_the_table_adds_only_the_others(layout: Layout) -> None:
    live, ledger = LiveRows(layout.live_steps(STAGE)), started(layout)
    assert ledger.deliver() == []
    assert children(layout) == []
    live.begin(ROWS[:2])
    for row in ROWS[2:5]:
        live.add(row)
        assert ledger.deliver() == []
    assert ledger.pause is not None
    assert children(layout) == [("RUNNING", [1, 2, 3, 4, 5])]
    live.begin(ROWS[:4])  # tried again, from its checkpoint
    live.add(ROWS[4])
    live.add(ROWS[5])
    assert ledger.deliver() == []
    live.remove()
    done = {"stage_id": STAGE, "cached": False, "time": 1.8e9 + 9}
    ledger.add({"kind": "stage", **done, "seconds": 8.0, "deps": {}, "outs": {TABLE: "c" * 32}, "metrics": {"kl": 0.5}})
    for _ in range(2):  # the same message again, as after an answer that was lost
        ledger.add({"kind": "steps", **done, "rows": ROWS})
        assert ledger.deliver() == []
        assert children(layout) == [("FINISHED", list(range(1, 51)))]
    assert ledger.pause is None


@pytest.mark.slow
def test_a_stage_that_fails_ends_with_its_run(layout: Layout) -> None:
    live, ledger = LiveRows(layout.live_steps(STAGE)), started(layout)
    live.begin(ROWS[:3])
    assert ledger.deliver() == []
    ledger.add({"kind": "finish", "status": "FAILED", "time": 1.8e9 + 5, "tags": {}})
    assert ledger.deliver() == []
    assert children(layout) == [("FAILED", [1, 2, 3])]
    assert ledger.pause is None


@pytest.mark.slow
def test_a_run_shows_its_steps_before_the_stage_ends_and_again_after_a_kill(layout: Layout) -> None:
    params = shipped_params(machine={"tracking": {"uri": uri(layout)}})
    live = LiveRows(layout.live_steps(STAGE))
    killed = Recorder(layout, params, {})
    killed.follow_steps(STAGE)
    live.begin(ROWS[:5])
    end = time.monotonic() + PATIENCE
    while ("RUNNING", [1, 2, 3, 4, 5]) not in children(layout):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert killed._process is not None
    os.kill(killed._process.pid, signal.SIGKILL)
    killed._process.wait()

    again = Recorder(layout, params, {})
    again.follow_steps(STAGE)
    assert live.read(0) == []  # those of the killed run are not taken for its own
    live.begin(ROWS[:5])  # what the checkpoint had
    live.add(ROWS[5])
    live.remove()
    again.stage(STAGE, 1.0, False, {}, {TABLE: "c" * 32})
    assert again.finish("FINISHED") is not None
    assert children(layout)[0] == ("FINISHED", list(range(1, 51)))


def test_calls_hold_as_many_rows_as_mlflow_takes() -> None:
    for width in (1, 26, 2000):
        rows = [{"step": float(n)} | {f"m{k}": 0.0 for k in range(width)} for n in range(100)]
        calls = list(row_batches(rows))
        assert [row for call in calls for row in call] == rows
        assert all(len(call) == 1 or len(call) * width <= POINTS_PER_CALL for call in calls)
    assert list(row_batches([])) == []
