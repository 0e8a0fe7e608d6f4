"""The view that MLflow's page opens with: the headline's names, in a tag that MLflow takes, at an address."""

import json

from tasks.statistics.intervals import Estimate
from tasks.statistics.learning_curves import headline
from tasks.tracking.addresses import experiment_address, server_address, view_state
from tasks.tracking.metrics import VALUE_LENGTH, headline_metrics, unknown_headline


def test_the_columns_are_the_headline_and_the_minutes() -> None:
    after = {"pass_at_1_greedy": 0.5, "sampled_mean": 0.5, "pass_at_1": 0.5, "pass_at_10": 0.5}
    numbers = headline(0.5, after, Estimate(0.0, 0.0, 0.0), promoted=False)
    assert {*unknown_headline([1, 10])} == {*headline_metrics(numbers), "minutes"}


def test_a_view_has_a_column_and_a_chart_of_each_metric_by_its_name_in_mlflow() -> None:
    view = view_state([*unknown_headline([1, 5, 10])])
    state = json.loads(json.loads(view)["state"])
    assert len(view) <= VALUE_LENGTH
    assert state["selectedColumns"][-2:] == ["metrics.`pass_at_10`", "metrics.`minutes`"]
    assert [chart.get("metricKey") for chart in state["compareRunCharts"]][-3:] == ["pass_at_10", "minutes", None]
    assert {chart["metricSectionId"] for chart in state["compareRunCharts"]} == {
        section["uuid"] for section in state["compareRunSections"]
    }


def test_an_address_has_the_view_and_no_password() -> None:
    assert experiment_address(server_address("https://u:p@host:5000/mlflow/"), "7") == (
        "https://host:5000/mlflow/#/experiments/7/runs?workflowType=machine_learning&viewStateShareKey=headline"
    )
