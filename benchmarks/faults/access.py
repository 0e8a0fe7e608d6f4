"""Requests of other people's web pages to the servers that Graft starts: tests/support/foreign_pages.py.

python -m benchmarks.faults.access
"""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

from flows.prefect_runs.temporary_server import TemporaryServer
from tasks.params.machine import Tracking
from tasks.tracking.server import TrackingServer
from tests.support.foreign_pages import OF_THIS_MACHINE, PAGES, accepted, mlflow_target, prefect_target


def measure() -> dict[str, float]:
    """`cross_origin_accepted`: requests of other servers' pages that Prefect's or MLflow's server accepts."""
    with TemporaryDirectory() as name:
        store = Tracking(tracker="mlflow", uri=f"sqlite:///{name}/mlflow.db", experiment="graft")
        with TrackingServer(Path(name), store) as mlflow, TemporaryServer(Path(name), part="pages") as api:
            found = accepted(api.removesuffix("/api"), (*PAGES, *OF_THIS_MACHINE), prefect_target)
            found += accepted(mlflow.url().partition("/#")[0], PAGES, mlflow_target)
    for line in found:
        print(line)
    return {"cross_origin_accepted": float(len(found))}


if __name__ == "__main__":
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    print(json.dumps(measure()))
