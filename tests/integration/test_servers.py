"""Two runs of a project on real servers, as docs/operations.md sets them up: seen by their APIs and in a browser."""

from pathlib import Path
from socket import gethostname
from typing import Any, NamedTuple

import httpx
import pytest

from flows.prefect_runs.crashed_runs import workspace_tag
from flows.reports.html.page import write_page
from tasks.params.file import load_params
from tasks.tracking.recorder import Recorder
from tests.support import finished_run, tiny_project
from tests.support.browser import Page, needed
from tests.support.postgres import Postgres
from tests.support.servers import Servers
from tests.support.tiny_project import ADDRESSES

pytestmark = pytest.mark.slow
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
    root = tiny_project.make(tmp_path_factory.mktemp("operated") / "project")
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
    (recorded,) = operated.mlflow_runs()  # the second run computed nothing, and repeats it
    assert first["state_name"] == second["state_name"] == "Completed"
    assert first["name"] == recorded["info"]["run_name"]
    assert first["name"].startswith("1 · first run · 0.")
    assert second["name"] == first["name"].replace("1 · first run", "2 · repeats 1")
    for run, expected in ((first, "Completed"), (second, "Cached")):
        found = operated.prefect(TASK_RUNS, flow_runs={"id": {"any_": [run["id"]]}}, sort="EXPECTED_START_TIME_ASC")
        assert {task["name"]: task["state_name"] for task in found} == dict.fromkeys(ADDRESSES, expected)
        artifact, table = operated.artifacts(run)
        assert (table["key"], table["type"]) == ("pass-at-k", "table")
        where = f"{operated.servers.mlflow.url}/#/experiments/{operated.experiment}/runs/{recorded['info']['run_id']}"
        view = "?workflowType=machine_learning"
        assert (artifact["key"], artifact["type"], artifact["description"]) == ("page", "markdown", "decided")
        assert artifact["data"] == (
            f"decided\n\nin short\n\n[page]({where}/artifacts/page.html{view}) · [MLflow run]({where}{view}) · "
            f"`{operated.root / 'run' / 'page.html'}` on `{gethostname()}`\n"
        )
    assert not (operated.root / ".graft" / "prefect").exists()  # no temporary server beside the real one


def test_the_runs_their_stages_and_their_files_are_on_mlflows_server(operated: Operated) -> None:
    (run,) = operated.mlflow_runs()
    assert run["info"]["status"] == "FINISHED"
    assert tags(run)["repeated"].startswith("1 time, last 20")
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
    assert database.sql("select count(*) from runs", "mlflow") == str(1 + len(ADDRESSES))
    for server in operated.servers[:2]:
        assert not list(server.log.parent.rglob("*.db"))
        assert database.password not in server.log.read_text()


@needed
def test_the_page_of_a_run_is_readable_in_mlflow(operated: Operated, page: Page, tmp_path: Path) -> None:
    server = operated.servers.mlflow.url
    named = server.replace("//", "//graft:a-password@")
    layout = finished_run.write(
        tmp_path, assignments=(f"machine.tracking.uri={named}", "machine.tracking.experiment=read")
    )
    write_page(layout)
    recorder = Recorder(layout, load_params(tmp_path / "params.yaml"), {})
    recorder.files(layout.page)
    assert recorder.url(layout.page) is None  # MLflow has not said yet where that will be
    assert recorder.finish("FINISHED")
    address = recorder.url(layout.page)
    assert address is not None
    assert address.startswith(f"{server}/#/experiments/")  # without the password: it stands on pages
    page.open(address)
    page.wait_for("page.html", "Path: mlflow-artifacts:/")
    title = "A run of 2 rounds on 24 test problems: 0.208 → 0.542"
    assert page.inside("document.querySelector('h1').innerText") == title
    assert page.inside("document.querySelectorAll('svg').length") == 13
    assert "background" in page.inside("document.querySelector('style').innerText")
