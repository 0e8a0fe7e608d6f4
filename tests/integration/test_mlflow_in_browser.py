"""MLflow's page in a real browser, from a real server: the columns of the run table, and a completion's trace."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.artifacts import write_json, write_jsonl
from tasks.layout import Layout
from tasks.tracking.addresses import experiment_address
from tasks.tracking.metrics import unknown_headline
from tasks.tracking.recorder import Recorder
from tasks.trajectories import RewardedTrajectory
from tests.support.browser import browser, needed
from tests.support.groups import write_rewarded
from tests.support.selections import selected_by_influence
from tests.support.servers import mlflow_server
from tests.support.stage_params import shipped_params

KS = [1, 5, 10]
NAMES = [*unknown_headline(KS)]
HEADERS = "[...document.querySelectorAll('[role=columnheader]')].map(e => [e.getBoundingClientRect().x, e.innerText])"


@needed
@pytest.mark.nightly
def test_the_run_table_opens_with_the_headline_in_its_order_and_a_trace_shows_a_completion(
    tmp_path: Path, make_trajectory: Callable[..., RewardedTrajectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    layout = Layout(tmp_path / "project")
    group = make_trajectory("p", [1.0, 0.0])
    write_rewarded(layout.trajectories(1), [group])
    write_jsonl(layout.selection(1), selected_by_influence(group, [0.5, -0.5]))
    write_json(layout.metrics("select", 1), {"noise": 1})
    with mlflow_server(tmp_path) as server:
        machine = {"tracking": {"uri": server.ready().url}}
        params = shipped_params(machine=machine, evaluation={"ks": KS}, rounds={"last": 1})
        recorder = Recorder(layout, params, {})
        recorder.stage("select@1", 1.0, False, {}, {"run/rounds/1/selection.jsonl": "c" * 32})
        run_id = recorder.finish("FINISHED")
        assert run_id is not None
        client = MlflowClient(server.url)
        for number, name in enumerate(NAMES):
            client.log_metric(run_id, name, number / 8)
        (tmp_path / "profile").mkdir()
        with browser(tmp_path / "profile") as page:
            address = experiment_address(server.url, client.get_run(run_id).info.experiment_id)
            page.open(address, width=2200)
            page.wait_for("headline", *NAMES)
            shown = list(
                dict.fromkeys(name for _, name in sorted(page.value(HEADERS)))
            )  # a header has several elements
            assert [name for name in shown if name in NAMES] == NAMES
            assert not any("noise" in name for name in shown)

            (first, *_) = client.search_traces(locations=[client.get_run(run_id).info.experiment_id], run_id=run_id)
            page.open("about:blank")
            page.open(address.replace("/runs?", f"/traces?traceId={first.info.trace_id}&"), width=2200)
            page.wait_for("p?", first.data.spans[1].outputs.splitlines()[1])
