"""What a run in MLflow shows first: the headline, a few curves over the rounds, and the steps of its updates."""

import math

import pytest

from tasks.artifacts import write_json, write_text
from tasks.layout import Layout
from tasks.statistics.intervals import Estimate
from tasks.statistics.learning_curves import headline
from tasks.tracking.metrics import MINUTES, headline_metrics, headline_names, round_metrics
from tasks.tracking.mlflow_tracker import valid_name
from tasks.tracking.recorder import Recorder
from tasks.tracking.server import run_address, server_address
from tests.support.mlflow_runs import children, parent_of, record, record_stage, store, tracking, update_recorded


def test_the_names_are_those_of_the_headline_and_mlflow_takes_them() -> None:
    after = {"pass_at_1_greedy": 0.5, "sampled_mean": 0.4, "pass_at_1": 0.4, "pass_at_10": 0.9}
    names = headline_metrics(headline(0.25, after, Estimate(0.25, 0.1, 0.4), promoted=True))
    assert [*names, MINUTES] == [*headline_names([1, 10])]
    assert [*map(valid_name, names)] == [*names]


def test_an_address_has_no_password() -> None:
    address = run_address(server_address("https://u:p@host:5000/mlflow/"), "7", "ab12")
    assert address == "https://host:5000/mlflow/#/experiments/7/runs/ab12?workflowType=machine_learning"


def test_the_curves_of_a_run_are_metrics_of_its_rounds() -> None:
    own = {"epoch/mean_reward": 0.5, "epoch/accumulated_reward": 8.0, "pass_at_1": 0.2, "pass_at_5": 0.6, "groups": 3}
    assert round_metrics("reward", own) == {
        **{"epoch/mean_reward": 0.5, "epoch/accumulated_reward": 8.0},
        **{"train/pass_at_1": 0.2, "train/pass_at_5": 0.6},
    }
    dev = {"sampled_mean": 0.2, "pass_at_1": 0.2, "pass_at_5": 0.6, "pass_at_10": 0.7}
    assert round_metrics("validate", dev) == {f"validate/dev_pass_at_{k}": dev[f"pass_at_{k}"] for k in (1, 5, 10)}


@pytest.mark.slow
def test_the_parent_has_the_headline_first_and_few_curves(layout: Layout) -> None:
    """In the order in which metrics first came; a run that fails has none of them."""
    run_id = record(layout, tracking())
    client = store(layout)
    metrics = client.get_run(run_id).data.metrics
    names = [*headline_names([1, 5, 10])]
    assert list(metrics)[: len(names)] == names
    assert metrics.keys() == {*names, "epoch/mean_reward", "epoch/accumulated_reward", "train/kl", "train/entropy"}
    assert (metrics["greedy"], metrics["promoted"]) == (0.7, 1)
    history = client.get_metric_history(run_id, "epoch/mean_reward")
    assert [(point.step, point.value) for point in history] == [(1, 0.1), (2, 0.2)]
    failed = Recorder(layout, tracking(), {}).finish("FAILED")
    metrics = client.get_run(failed).data.metrics
    assert [name for name, value in metrics.items() if not math.isnan(value)] == [MINUTES]


@pytest.mark.slow
def test_the_steps_and_the_speed_of_an_update_are_those_of_the_run_that_computed_it(layout: Layout) -> None:
    write_json(layout.metrics("update", 1), {"kl": 0.5})
    write_json(layout.speed("update@1"), {"tokens_per_second": 1234.5})
    write_text(layout.steps(1), "step,kl,clip_ratio/low_mean\n1,0.25,0\n2,1e-05,0.5\n")
    for cached, steps, speed in ((False, [(1, 0.25), (2, 1e-05)], 1234.5), (True, [], None)):
        own = update_recorded(layout, cached)
        points = store(layout).get_metric_history(own.info.run_id, "step/kl")
        assert [(point.step, point.value) for point in points] == steps
        assert own.data.metrics["kl"] == 0.5
        assert own.data.metrics.get("tokens_per_second") == speed
        assert "tokens_per_second" not in store(layout).get_run(parent_of(own)).data.metrics


@pytest.mark.slow
def test_a_table_that_is_damaged_costs_no_number(layout: Layout, capfd: pytest.CaptureFixture[str]) -> None:
    write_json(layout.metrics("update", 1), {"number": 7})
    write_text(layout.steps(1), "step,kl\n1\n")
    run_id = record_stage(layout, "update@1", "run/plots/update@1.csv")
    assert "steps of update@1, run/plots/update@1.csv, left out" in capfd.readouterr().err
    client = store(layout)
    assert children(client, run_id)["update@1"].data.metrics["number"] == 7
    assert client.get_run(run_id).info.status == "FINISHED"
