"""A run of a project on real servers, as docs/operations.md sets them up: what each shows, and the page in MLflow."""

from pathlib import Path
from socket import gethostname
from typing import Any

import httpx
import pytest

from flows.reports.html.page import write_page
from tasks.params.file import load_params
from tasks.tracking.recorder import Recorder
from tests.support import finished_run, tiny_project
from tests.support.browser import Page, needed
from tests.support.flow_runs import flow_runs
from tests.support.servers import Servers
from tests.support.tiny_project import ADDRESSES

pytestmark = pytest.mark.slow


def asked(address: str, **details: Any) -> Any:
    return httpx.post(address, json=details).raise_for_status().json()


def test_a_run_is_on_both_servers_and_its_summary_links_to_mlflow(on_sqlite: Servers, tmp_path: Path) -> None:
    root, (prefect, mlflow) = tiny_project.make(tmp_path / "project"), on_sqlite
    uri = f"machine.tracking.uri={mlflow.url}"
    tiny_project.graft(root, "retrain", "-S", uri, PREFECT_API_URL=f"{prefect.url}/api")
    assert not (root / ".graft" / "prefect").exists()  # no temporary server beside the real one
    assert not (root / "mlflow.db").exists()
    (flow_run,) = flow_runs(f"{prefect.url}/api", root)
    api = f"{mlflow.url}/api/2.0/mlflow"
    graft = httpx.get(f"{api}/experiments/get-by-name", params={"experiment_name": "graft"}).json()["experiment"]
    experiment, chosen = graft["experiment_id"], f"attributes.run_name = '{flow_run['name']}'"
    (run,) = asked(f"{api}/runs/search", experiment_ids=[experiment], filter=chosen)["runs"]
    run_id = run["info"]["run_id"]
    below = f"tags.`mlflow.parentRunId` = '{run_id}'"
    stages = asked(f"{api}/runs/search", experiment_ids=[experiment], filter=below)["runs"]
    assert run["info"]["status"] == "FINISHED"
    assert sorted(stage["info"]["run_name"] for stage in stages) == sorted(ADDRESSES)
    artifact, _ = asked(
        f"{prefect.url}/api/artifacts/filter", flow_runs={"id": {"any_": [flow_run["id"]]}}, sort="KEY_ASC"
    )
    where, view = f"{mlflow.url}/#/experiments/{experiment}/runs/{run_id}", "?workflowType=machine_learning"
    assert artifact["data"] == (
        f"decided\n\nin short\n\n[page]({where}/artifacts/page.html{view}) · [MLflow run]({where}{view}) · "
        f"`{root / 'run' / 'page.html'}` on `{gethostname()}`\n"
    )
    assert httpx.get(f"{mlflow.url}/get-artifact?path=page.html&run_id={run_id}").text == "a page"


@needed
def test_the_page_of_a_run_is_readable_in_mlflow(on_sqlite: Servers, page: Page, tmp_path: Path) -> None:
    server = on_sqlite.mlflow.url
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
