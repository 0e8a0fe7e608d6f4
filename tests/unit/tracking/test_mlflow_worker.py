"""Against a real sqlite store: what the machine does is on the run, and ends with it."""

import time
from pathlib import Path
from typing import Any

import pytest

from tasks.layout import Layout
from tasks.tracking.mlflow_ledger import store_lock
from tasks.tracking.mlflow_worker import SystemMetrics
from tasks.tracking.recorder import Recorder
from tests.support.stage_params import shipped_params

PATIENCE = 120  # seconds for a worker on a busy machine
NAME = "tasks.tracking.mlflow_worker"
PROCESSOR = "system/cpu_utilization_percentage"


def histories(uri: str) -> list[list[Any]]:
    """The points of each run."""
    from mlflow import MlflowClient

    with store_lock(uri):  # the worker may be creating it
        client = MlflowClient(uri)
    if not (experiment := client.get_experiment_by_name("graft")):
        return []
    runs = client.search_runs([experiment.experiment_id])
    return [client.get_metric_history(run.info.run_id, PROCESSOR) for run in runs]


@pytest.mark.slow
def test_a_run_has_system_metrics_that_end_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.2")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    recorder = Recorder(Layout(tmp_path), shipped_params(machine={"tracking": {"uri": uri}}), {})
    end = time.monotonic() + PATIENCE
    while not any(len(points) >= 2 for points in histories(uri)):
        assert time.monotonic() < end
        time.sleep(0.1)
    run_id = recorder.finish("FINISHED")
    assert run_id is not None
    (points,) = histories(uri)
    assert [point.step for point in points] == list(range(len(points)))
    assert all(0 <= point.value <= 100 for point in points)


@pytest.mark.slow
def test_a_machine_without_counters_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    metrics = SystemMetrics("no-such-store:///")  # MLflow's monitor cannot be made
    for _ in range(2):
        metrics.start("0")
    metrics.stop()
    assert [record.message[:18] for record in caplog.records if record.name == NAME] == ["no system metrics:"]
