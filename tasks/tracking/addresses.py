"""Addresses of MLflow's pages on a tracking server, and the view with which its page opens the experiment.

The view, columns and charts, is in a tag of the experiment. Without its key in the address the page shows every metric.
"""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

TRAINING = "?workflowType=machine_learning"
"""Without it MLflow's pages show prompts and traces, and no training run."""

VIEW = "headline"
"""Key and name of the experiment's view."""

VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"

PARAMS = "params that differ"

RUN_NAME, CREATED = "attributes.`Run Name`", "runDateAndNestInfo"
"""MLflow's ids of two columns."""


def server_address(uri: str) -> str:
    """The address of a tracking server, without user and password; "" for a database."""
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https"):
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def experiments_address(server: str) -> str:
    """The list of experiments."""
    return f"{server}/#/experiments{TRAINING}"


def experiment_address(server: str, experiment_id: str) -> str:
    """The runs of an experiment, with the columns and charts of its view."""
    return f"{server}/#/experiments/{experiment_id}/runs{TRAINING}&viewStateShareKey={VIEW}"


def run_address(server: str, experiment_id: str, run_id: str, file: str = "") -> str:
    """A run, or one of its files."""
    place = f"/artifacts/{file}" if file else ""
    return f"{server}/#/experiments/{experiment_id}/runs/{run_id}{place}{TRAINING}"


def view_state(names: Sequence[str]) -> str:
    """Value of VIEW_TAG, in the format of MLflow 3.17.2's saved views: a column and a chart of each metric, in order.

    Below them a table of the params in which the runs differ. MLflow adds charts of the other metrics at the end.
    """
    columns = {f"metrics.`{name}`": 30 + 7 * max(len(name), 5) for name in names}  # pixels
    state = {
        "selectedColumns": [*columns],
        "columnOrder": [RUN_NAME, CREATED, *columns],
        "columnWidths": {RUN_NAME: 320, CREATED: 120, **columns},
        "compareRunSections": [_section(VIEW, columns=3, height=300), _section(PARAMS, columns=1, height=320)],
        "compareRunCharts": [*(_bar_chart(name) for name in names), _params_table()],
        "isAccordionReordered": True,  # else the sections are sorted by name
    }
    return json.dumps({"name": VIEW, "createdAt": 0, "state": json.dumps(state, separators=(",", ":"))})


def _section(name: str, columns: int, height: int) -> dict[str, Any]:
    return {
        "uuid": name,
        "name": name,
        "display": True,
        "isReordered": False,
        "columns": columns,
        "cardHeight": height,
    }


def _bar_chart(metric: str) -> dict[str, Any]:
    return {
        "type": "BAR",
        "uuid": metric,
        "metricSectionId": VIEW,
        "metricKey": metric,
        "displayName": metric,
        "runsCountToCompare": 10,
        "deleted": False,
        "isGenerated": True,
    }


def _params_table() -> dict[str, Any]:
    return {
        "type": "DIFFERENCE",
        "uuid": PARAMS,
        "metricSectionId": PARAMS,
        "chartName": PARAMS,
        "compareGroups": ["Parameters"],
        "showChangeFromBaseline": False,
        "showDifferencesOnly": True,
        "baselineColumnUuid": "",
        "deleted": False,
        "isGenerated": False,
    }
