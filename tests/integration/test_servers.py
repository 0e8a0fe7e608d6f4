"""Two runs of a project on real servers that keep their records in Postgres, as docs/operations.md sets them up.

What the states, names and lines of a run are: tests/project/test_retrain.py; what MLflow holds: tests/unit/tracking.
"""

from pathlib import Path
from socket import gethostname
from typing import Any

import httpx
import pytest

from flows.stages.dvc_yaml import stage_ids
from tests.support import tiny_project
from tests.support.flow_runs import flow_runs
from tests.support.postgres import Postgres
from tests.support.servers import Servers


@pytest.mark.slow
def test_runs_and_their_pages_are_on_both_servers(on_postgres: Servers, database: Postgres, tmp_path: Path) -> None:
    from mlflow import MlflowClient

    prefect, mlflow = on_postgres
    root, api = tiny_project.make(tmp_path / "project", rounds=1), f"{prefect.url}/api"
    for _ in range(2):
        tiny_project.graft(root, "retrain", "-S", f"machine.tracking.uri={mlflow.url}", PREFECT_API_URL=api)
    client: Any = MlflowClient(mlflow.url)
    recorded = client.search_runs(["1"], "tags.`prefect.flow_run_id` != ''", order_by=["attributes.start_time"])
    runs = flow_runs(api, root)
    assert [run.info.run_name for run in recorded] == [run["name"] for run in runs]
    for own, run in zip(recorded, runs, strict=True):
        asked = {"flow_runs": {"id": {"any_": [run["id"]]}}}
        (artifact,) = httpx.post(f"{api}/artifacts/filter", json=asked).raise_for_status().json()
        where = f"{mlflow.url}/#/experiments/1/runs/{own.info.run_id}"
        view = "?workflowType=machine_learning"
        assert artifact["data"] == (
            f"decided\n\nin short\n\n[page]({where}/artifacts/page.html{view}) · [MLflow run]({where}{view}) · "
            f"`{root / 'run' / 'page.html'}` on `{gethostname()}`\n"
        )
        assert httpx.get(f"{mlflow.url}/get-artifact?path=page.html&run_id={own.info.run_id}").text == "a page"
    assert not (root / ".graft" / "prefect").exists()  # no temporary server beside the real one
    assert not (root / "mlflow.db").exists()
    assert database.sql("select count(*) from flow_run", "prefect") == "2"
    assert database.sql("select count(*) from runs", "mlflow") == str(2 * (1 + len(stage_ids(1))))
    for server in (prefect, mlflow):
        assert not list(server.log.parent.rglob("*.db"))
        assert database.password not in server.log.read_text()
