"""The lines that `graft ui` prints where no server has to be started."""

from pathlib import Path

from flows.ui import moved, pages
from tasks.artifacts import write_text
from tasks.layout import Layout
from tasks.params.file import load_params
from tasks.params.machine import Tracking
from tasks.tracking.server import TRAINING, runs_url, server_address
from tests.support.tiny_project import REPOSITORY

AWAY = "http://127.0.0.1:9"


def tracking(uri: str) -> Tracking:
    return load_params(REPOSITORY / "params.yaml").machine.tracking.model_copy(update={"uri": uri})


def test_servers_of_the_user_are_named_without_their_password(tmp_path: Path) -> None:
    write_text(Layout(tmp_path).page, "a page")
    found = dict(pages(tmp_path, tracking(f"{AWAY[:7]}me:secret@{AWAY[7:]}/"), None, None, "https://prefect.example"))
    page = f"file://{tmp_path}/run/page.html"
    assert found == {
        f"page     {page}": page,
        "Prefect  https://prefect.example/runs": "https://prefect.example/runs",
        f"MLflow   {AWAY}/#/experiments{TRAINING}": f"{AWAY}/#/experiments{TRAINING}",
    }


def test_what_is_not_there_has_no_address(tmp_path: Path) -> None:
    assert dict(pages(tmp_path, tracking(""), None, None, AWAY)) == {
        "page     none yet: a run writes it, graft retrain": "",
        f"Prefect  {AWAY}/runs": f"{AWAY}/runs",
        "MLflow   off: machine.tracking.uri in params.yaml is empty": "",
    }


def test_another_port_is_explained() -> None:
    assert moved(4200, 4200) == ""
    assert moved(41234, 4200) == "  (port 4200 is taken)"


def test_a_database_is_no_server() -> None:
    assert server_address("sqlite:///mlflow.db") == server_address("postgresql://me:secret@127.0.0.1/mlflow") == ""
    assert server_address("https://me:a@c@host:5000/mlflow/") == "https://host:5000/mlflow"


def test_a_server_that_is_away_is_opened_at_its_experiments() -> None:
    assert runs_url(AWAY, "graft") == f"{AWAY}/#/experiments{TRAINING}"
