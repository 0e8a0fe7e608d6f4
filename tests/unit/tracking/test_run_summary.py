"""The parent run in MLflow: headline, a few curves over the rounds, and a LoggedModel for each round's policy."""

import math
from typing import Any

import pytest

from tasks.layout import Layout
from tasks.statistics.intervals import Estimate
from tasks.statistics.learning_curves import headline
from tasks.tracking.metrics import MINUTES, RunSummary, headline_metrics, round_metrics, unknown_headline, valid_name
from tasks.tracking.recorder import Recorder
from tests.support.mlflow_runs import decide, record, store, tracking


class Client:
    """Keeps the metrics that it is sent."""

    def __init__(self) -> None:
        self.points: list[tuple[str, int, float, str | None]] = []

    def log_batch(self, run_id: str, metrics: list[Any]) -> None:  # noqa: ARG002
        self.points += [(m.key, m.step, m.value, m.model_id) for m in metrics]


def test_the_points_of_a_round_name_its_policy() -> None:
    client, summary = Client(), RunSummary()
    summary.add_stage("reward", 1, {"epoch/mean_reward": 0.25, "failed": 3}, 1.0)
    summary.send(client, "run")
    assert client.points == []
    summary.add_model(1, "m-1")
    summary.add_stage("update", 1, {"kl": 0.5}, 2.0)
    summary.add_stage("reward", 2, {"epoch/mean_reward": 0.5}, 3.0)  # its update fails
    summary.add_stage("validate", 1, {"sampled_mean": 0.75}, 4.0)
    summary.release_all()
    summary.add({"greedy": 1.0}, 5.0)
    summary.send(client, "run")
    assert client.points == [
        ("train/mean_reward", 1, 0.25, "m-1"),
        ("train/kl", 1, 0.5, "m-1"),
        ("validate/dev_pass_at_1", 1, 0.75, "m-1"),
        ("train/mean_reward", 2, 0.5, None),
        ("greedy", 0, 1.0, None),
    ]
    summary.send(client, "run")
    assert len(client.points) == 5


def test_the_names_are_those_of_the_headline_and_mlflow_takes_them() -> None:
    after = {"pass_at_1_greedy": 0.5, "sampled_mean": 0.4, "pass_at_1": 0.4, "pass_at_10": 0.9}
    names = headline_metrics(headline(0.25, after, Estimate(0.25, 0.1, 0.4), promoted=True))
    assert [*names, MINUTES] == [*unknown_headline([1, 10])]
    assert [*map(valid_name, names)] == [*names]
    assert round_metrics("promote", {"kl": 1.0}) == {}


@pytest.mark.slow
def test_the_page_of_a_run_lists_the_headline_first(layout: Layout) -> None:
    """In the order in which metrics first came; a run that fails has none of them."""
    run_id = record(layout, tracking())
    names = list(store(layout).get_run(run_id).data.metrics)
    assert names[:9] == [*unknown_headline([1, 5, 10])]
    recorder = Recorder(layout, tracking(), {})
    failed = recorder.finish("FAILED")
    metrics = store(layout).get_run(failed).data.metrics
    assert [name for name, value in metrics.items() if not math.isnan(value)] == [MINUTES]


@pytest.mark.slow
@pytest.mark.parametrize("cached", [False, True])
def test_the_parent_has_the_headline_and_few_curves(layout: Layout, cached: bool) -> None:
    run_id = record(layout, tracking(), cached)
    client = store(layout)
    metrics = client.get_run(run_id).data.metrics
    assert metrics.keys() == unknown_headline([10]).keys() | {"train/mean_reward", "train/kl", "train/entropy"}
    assert (metrics["greedy"], metrics["promoted"]) == (0.7, 1)
    history = client.get_metric_history(run_id, "train/mean_reward")
    assert [(point.step, point.value) for point in history] == [(1, 0.1), (2, 0.2)]


@pytest.mark.slow
def test_the_policies_are_ranked_and_the_champion_is_one_of_them(layout: Layout) -> None:
    decide(layout, "v2", promoted=True)  # the policy of the second round
    run_id = record(layout, tracking())
    client = store(layout)

    def ranked(metric: str) -> list[Any]:
        order = [{"field_name": f"metrics.{metric}", "ascending": False}]
        return list(client.search_logged_models(["1"], order_by=order))

    models = ranked("train/mean_reward")
    assert [model.name for model in models] == ["round-2", "round-1"]
    assert {model.source_run_id for model in models} == {run_id}
    about = {"round": "2", "version": "v2", "path": "run/rounds/2/policy", "dvc_md5": "p2.dir"}
    assert models[0].tags.items() >= about.items()
    assert {metric.key: metric.value for metric in models[1].metrics}.items() >= {"train/kl": 0.01}.items()
    greedy = {model.name: [m.value for m in model.metrics if m.key == "greedy"] for model in models}
    assert greedy == {"round-2": [0.7], "round-1": []}
    champion = client.get_model_version_by_alias("graft", "champion")
    assert champion.source == f"models:/{models[0].model_id}"
    assert len(ranked("greedy")) == 2
