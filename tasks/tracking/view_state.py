"""Columns and charts with which MLflow's page opens the experiment, and the address that opens it so.

MLflow keeps such a view in a tag of the experiment; without the key in the address its page shows every metric.
"""

import json
from collections.abc import Sequence

from tasks.tracking.mlflow_limits import valid_name

KEY = "graft"

VIEW_TAG = f"mlflow.sharedViewState.{KEY}"

NAME_WIDTH, NUMBER_WIDTH = 420, 86
"""Pixels of a column."""


def headline_columns(ks: Sequence[int]) -> list[str]:
    """The metrics of a run that the view shows: those of `run/metrics.json`, and its minutes."""
    return ["greedy", "before", "change", "low", "high", "promoted", "sampled", f"pass@{max(ks)}", "minutes"]


def view_state(metrics: Sequence[str]) -> str:
    """Value of VIEW_TAG, in the format of MLflow 3.17.2's saved views: a column and a chart for each metric, in order.

    Charts of the other metrics follow in sections of their own.
    """
    names = [valid_name(name) for name in metrics]
    columns = [f"metrics.`{name}`" for name in names]
    run_name = "attributes.`Run Name`"
    state = {
        "selectedColumns": columns,
        "columnOrder": [run_name, *columns],
        "columnWidths": {run_name: NAME_WIDTH} | dict.fromkeys(columns, NUMBER_WIDTH),
        "compareRunSections": [{"uuid": "headline", "name": "headline", "display": True, "isReordered": False}],
        "compareRunCharts": [_bar_chart(name) for name in names],
        "isAccordionReordered": True,  # else the sections are sorted by name
    }
    return json.dumps({"name": "headline", "createdAt": 0, "state": json.dumps(state, separators=(",", ":"))})


def experiment_url(server: str, experiment_id: str) -> str:
    """Address of an experiment's runs on an MLflow server, in this view and not in that for prompts."""
    return (
        f"{server.rstrip('/')}/#/experiments/{experiment_id}/runs?workflowType=machine_learning&viewStateShareKey={KEY}"
    )


def _bar_chart(metric: str) -> dict[str, object]:
    return {
        "type": "BAR",
        "uuid": f"headline-{metric}",
        "metricSectionId": "headline",
        "metricKey": metric,
        "displayName": metric,
        "runsCountToCompare": 10,
        "deleted": False,
        "isGenerated": True,
    }
