"""Stores that do not answer: real servers and sockets."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.core.loopback import free_port
from tasks.layout import Layout
from tasks.tracking import recorder as recorder_module
from tasks.tracking.ledger import RunLedger
from tasks.tracking.recorder import Recorder, update_registry
from tasks.tracking.store import store_lock
from tests.support.mlflow_runs import children, record, store, tracking
from tests.support.servers import mlflow_server
from tests.support.tiers import nightly_but_first

LOCAL = "sqlite:///mlflow.db"


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A port on which the kernel accepts connections, and nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def address(listener: socket.socket) -> str:
    return f"http://user:secret@127.0.0.1:{listener.getsockname()[1]}"


def test_a_server_that_never_answers_costs_the_limit_and_no_more(
    layout: Layout, silent: socket.socket, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recorder_module, "SECONDS", 2)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "3600")  # MLflow itself would wait for an hour
    recorder = Recorder(layout, tracking(address(silent)), {})
    outs = {f"run/out/{i}": "m" * 5000 for i in range(100)}  # 500 kB a message: far more than a pipe holds
    for number in (1, 2):
        recorder.stage(f"reward@{number}", 1.0, False, {}, outs)
    process = recorder._process
    assert process is not None
    with silent.accept()[0]:
        assert recorder.finish("FINISHED") is None
    assert process.poll() is not None  # nothing is left behind
    (warning,) = capfd.readouterr().err.splitlines()
    assert all(part in warning for part in ("no answer within 2 s", "machine.tracking.uri"))
    assert "secret" not in warning


def test_a_registry_that_never_answers_costs_the_limit_and_no_more(
    layout: Layout, silent: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "SECONDS", 2)
    assert update_registry(layout, tracking(address(silent))) == "no answer within 2 s"
    assert update_registry(layout, tracking("")) is None


@pytest.mark.parametrize(
    ("uri", "remedy"), nightly_but_first([("http://127.0.0.1:9", "start the server"), (LOCAL, "not a database")])
)
def test_a_dead_port_and_a_file_that_is_no_database_are_warnings(
    layout: Layout, uri: str, remedy: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (layout.root / "mlflow.db").write_text("this is no database, " * 100)
    assert record(layout, tracking(uri)) is None
    (warning,) = capfd.readouterr().err.splitlines()
    assert remedy in warning


@pytest.mark.slow
@pytest.mark.parametrize("deleted", nightly_but_first(["experiment", "run"]))
def test_what_is_deleted_during_a_run_costs_one_line_and_the_next_run_is_recorded(
    layout: Layout, deleted: str, capfd: pytest.CaptureFixture[str]
) -> None:
    recorder = Recorder(layout, tracking(), {})
    uri = f"sqlite:///{layout.root}/mlflow.db"
    limit = time.monotonic() + 120
    while not (found := _runs(uri)) and time.monotonic() < limit:
        time.sleep(0.1)
    client, (run,) = store(layout), found
    number = run.info.experiment_id
    client.delete_run(run.info.run_id) if deleted == "run" else client.delete_experiment(number)
    recorder.stage("reward@1", 2.0, False, {}, {})
    recorder.finish("FINISHED")
    *_, warning = capfd.readouterr().err.splitlines()
    restore = {
        "run": f"its run was deleted; restore it: mlflow runs restore --run-id {run.info.run_id}. The",
        "experiment": f"its experiment 'graft' was deleted; restore it: mlflow experiments restore -x {number}. The",
    }
    assert restore[deleted] in warning
    if deleted == "experiment":
        client.restore_experiment(number)
    run_id = record(layout, tracking(), cached=True)
    assert run_id is not None
    assert len(children(client, run_id)) == 7


def _runs(uri: str) -> list[Any]:
    """The runs of a store that another process is creating."""
    from mlflow import MlflowClient

    if not Path(uri.removeprefix("sqlite:///")).exists():
        return []
    with store_lock(uri):
        client: Any = MlflowClient(uri)
        return list(client.search_runs(["1"]))


@pytest.mark.slow
def test_a_server_receives_what_was_recorded_while_it_was_away(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    port = free_port()
    uri = f"http://127.0.0.1:{port}"
    ledger = RunLedger("mlflow", uri, "early")
    ledger.add({"kind": "start", "time": 1.8e9, "ks": [1, 10], "params": {"a": "1"}, "tags": {}})
    stage = {"kind": "stage", "stage_id": "reward@1", "seconds": 1.0, "cached": False, "deps": {}, "outs": {}}
    ledger.add({**stage, "time": 1.8e9 + 1, "metrics": {"epoch/mean_reward": 0.5}})
    assert len(ledger.deliver()) == 1
    assert ledger.run_id is None

    with mlflow_server(tmp_path, port=port) as server:
        server.ready()
        ledger.add({"kind": "finish", "status": "FINISHED", "time": 1.8e9 + 2, "tags": {}})
        assert ledger.deliver() == []
        run_id = record(layout, tracking(uri))
    client = store(layout)
    early = client.get_run(ledger.run_id)
    assert early.info.status == "FINISHED"
    assert early.data.params == {"a": "1"}
    known = {name: value for name, value in early.data.metrics.items() if value == value}
    assert known == {"epoch/mean_reward": 0.5, "minutes": pytest.approx(2 / 60)}
    assert run_id is not None
    assert client.get_run(run_id).data.metrics["greedy"] == 0.7
    assert len(children(client, run_id)) == 7
    assert client.get_model_version_by_alias("graft", "champion").tags["version"] == "aaaa"
