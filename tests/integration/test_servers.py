"""Two runs of a project on real servers, as docs/operations.md sets them up: seen by their APIs and in a browser."""

from pathlib import Path
from socket import gethostname
from typing import Any, NamedTuple

import httpx
import pytest

from flows.prefect_runs.crashed_runs import workspace_tag
from flows.stages.dvc_yaml import stage_ids
from tests.support import tiny_project
from tests.support.postgres import Postgres
from tests.support.servers import Servers

pytestmark = pytest.mark.slow
ADDRESSES = stage_ids(1)
FLOW_RUNS, TASK_RUNS, ARTIFACTS = "flow_runs", "task_runs", "artifacts"


class Operated(NamedTuple):
    """A project that ran twice, and the servers that saw it."""

    servers: Servers
    root: Path

    def prefect(self, kind: str, **question: Any) -> list[dict[str, Any]]:
        answer = httpx.post(f"{self.servers.prefect.url}/api/{kind}/filter", json=question)
        found: list[dict[str, Any]] = answer.raise_for_status().json()
        return found

    def mlflow(self, question: str, **details: Any) -> dict[str, Any]:
        address = f"{self.servers.mlflow.url}/api/2.0/mlflow/{question}"
        search = question.endswith("search")
        answer = httpx.post(address, json=details) if search else httpx.get(address, params=details)
        found: dict[str, Any] = answer.raise_for_status().json()
        return found

    @property
    def flow_runs(self) -> list[dict[str, Any]]:
        """Of this project: other tests share the server."""
        own = {"tags": {"all_": [workspace_tag(self.root)]}}
        return self.prefect(FLOW_RUNS, flow_runs=own, sort="START_TIME_ASC")

    def artifacts(self, run: dict[str, Any]) -> list[dict[str, Any]]:
        """Of a flow run, by key."""
        return self.prefect(ARTIFACTS, flow_runs={"id": {"any_": [run["id"]]}}, sort="KEY_ASC")

    @property
    def experiment(self) -> str:
        found = self.mlflow("experiments/get-by-name", experiment_name="graft")
        return str(found["experiment"]["experiment_id"])

    def mlflow_runs(self, parent: str | None = None) -> list[dict[str, Any]]:
        """In the order in which they started; those of a retraining's stages are the `parent`'s."""
        order = ["attributes.start_time ASC"]
        runs = self.mlflow("runs/search", experiment_ids=[self.experiment], max_results=100, order_by=order)["runs"]
        return [run for run in runs if tags(run).get("mlflow.parentRunId") == parent]


def tags(run: dict[str, Any]) -> dict[str, str]:
    return {tag["key"]: tag["value"] for tag in run["data"]["tags"]}


@pytest.fixture(scope="module")
def operated(on_postgres: Servers, tmp_path_factory: pytest.TempPathFactory) -> Operated:
    servers = on_postgres
    root = tiny_project.make(tmp_path_factory.mktemp("operated") / "project", rounds=1)
    for _ in range(2):
        told = tiny_project.graft(
            root,
            "retrain",
            "-S",
            f"machine.tracking.uri={servers.mlflow.url}",
            PREFECT_API_URL=f"{servers.prefect.url}/api",
        )
    assert told.stdout.endswith(f"report: {len(ADDRESSES)} stages, {len(ADDRESSES)} cached\n")
    return Operated(servers, root)


def test_the_runs_their_tasks_and_their_artifacts_are_on_prefects_server(operated: Operated) -> None:
    first, second = operated.flow_runs
    runs = operated.mlflow_runs()
    assert first["state_name"] == second["state_name"] == "Completed"
    assert [run["info"]["run_name"] for run in runs] == [first["name"], second["name"]]
    assert first["name"].startswith("1 · first run · 0.")
    assert second["name"] == first["name"].replace("1 · first run", "2 · repeats 1")
    for run, recorded, expected in zip((first, second), runs, ("Completed", "Cached"), strict=True):
        found = operated.prefect(TASK_RUNS, flow_runs={"id": {"any_": [run["id"]]}}, sort="EXPECTED_START_TIME_ASC")
        assert {task["name"]: task["state_name"] for task in found} == dict.fromkeys(ADDRESSES, expected)
        (artifact,) = operated.artifacts(run)
        where = f"{operated.servers.mlflow.url}/#/experiments/{operated.experiment}/runs/{recorded['info']['run_id']}"
        view = "?workflowType=machine_learning"
        assert (artifact["key"], artifact["type"], artifact["description"]) == ("page", "markdown", "decided")
        assert artifact["data"] == (
            f"decided\n\nin short\n\n[page]({where}/artifacts/page.html{view}) · [MLflow run]({where}{view}) · "
            f"`{operated.root / 'run' / 'page.html'}` on `{gethostname()}`\n"
        )
    assert not (operated.root / ".graft" / "prefect").exists()  # no temporary server beside the real one


def test_the_runs_their_stages_and_their_files_are_on_mlflows_server(operated: Operated) -> None:
    run, again = operated.mlflow_runs()
    assert run["info"]["status"] == again["info"]["status"] == "FINISHED"
    assert len(run["data"]["metrics"]) <= 40
    stages = operated.mlflow_runs(parent=run["info"]["run_id"])
    assert sorted(stage["info"]["run_name"] for stage in stages) == sorted(ADDRESSES)
    assert {tags(stage)["cached"] for stage in stages} == {"false"}
    listed = operated.mlflow("artifacts/list", run_id=run["info"]["run_id"])["files"]
    assert {"account.json", "page.html"} < {file["path"] for file in listed}
    place = f"{operated.servers.mlflow.url}/get-artifact?path=page.html&run_id={run['info']['run_id']}"
    assert httpx.get(place).text == "a page"
    assert not (operated.root / "mlflow.db").exists()


def test_the_records_are_in_the_database_that_was_named(operated: Operated, database: Postgres) -> None:
    assert database.sql("select count(*) from flow_run", "prefect") == "2"
    assert database.sql("select count(*) from artifact where key = 'page'", "prefect") == "2"
    assert database.sql("select count(*) from runs", "mlflow") == str(2 * (1 + len(ADDRESSES)))
    for server in operated.servers[:2]:
        assert not list(server.log.parent.rglob("*.db"))
        assert database.password not in server.log.read_text()
