"""`graft ui` on the project of a finished run: the pages in a browser, a run beside it, and its end."""

import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest

from flows.prefect_runs.temporary_server import PORT as PREFECT_PORT
from flows.stages.dvc_yaml import stage_ids
from tests.support import tiny_project
from tests.support.aftermath import left_after_a_while
from tests.support.browser import Page, needed
from tests.support.flow_runs import flow_runs
from tests.support.params_file import override
from tests.support.processes import is_loopback, listeners
from tests.support.tiers import nightly_but_first

pytestmark = pytest.mark.slow


class Shown(NamedTuple):
    """A running `graft ui`, the lines that it printed, and its addresses by their names."""

    root: Path
    process: "subprocess.Popen[str]"
    lines: list[str]
    addresses: dict[str, str]

    @property
    def prefect(self) -> str:
        return self.addresses["Prefect"].removesuffix("/runs")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """With Prefect's usual port taken."""
    root = tiny_project.make(tmp_path_factory.mktemp("ui") / "project", rounds=1)
    tiny_project.graft(
        root, "retrain", "-S", "machine.tracking.uri=sqlite:///mlflow.db", "-S", "seed=5", TINY_WARN="update@1"
    )
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", PREFECT_PORT))
            taken.listen()
        except OSError:
            pass  # taken by another program, which is as good
        process = tiny_project.start(root, "ui")
        try:
            lines = first_lines(process)
            addresses = {line.split()[0]: line.split()[1] for line in lines[1:]}
            yield Shown(root, process, lines, addresses)
        finally:
            process.kill()
            process.wait()


def first_lines(process: "subprocess.Popen[str]") -> list[str]:
    """Up to the last address."""
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(4)]
    assert all(lines), process.communicate()
    return lines


def test_it_prints_an_address_for_each_page_and_listens_on_loopback_alone(shown: Shown) -> None:
    begin, page, prefect, mlflow = shown.lines
    assert begin == "starting the servers, which takes some 15 s; Ctrl-C ends them\n"
    assert page == f"page     file://{shown.root}/run/page.html\n"
    assert re.fullmatch(r"Prefect  http://127\.0\.0\.1:\d+/runs  \(port 4200 is taken\)\n", prefect)
    assert re.match(r"MLflow   http://127\.0\.0\.1:\d+/#/experiments/1/runs\?workflowType=machine_learning", mlflow)
    heard = listeners(shown.process.pid)
    assert {urlsplit(shown.addresses[name]).port for name in ("Prefect", "MLflow")} == {port for _, port in heard}
    assert all(is_loopback(address) for address, _ in heard)


@needed
def test_prefects_page_shows_the_run_and_the_lines_of_its_stages(shown: Shown, page: Page) -> None:
    (run,) = flow_runs(f"{shown.prefect}/api", shown.root)
    page.open(shown.addresses["Prefect"])
    page.wait_for(run["name"])
    page.open(f"{shown.prefect}/runs/flow-run/{run['id']}")
    page.wait_for("Beginning flow run '1 · first run'", "the stage says so", "update@1 ran", "promote ran", "decided")
    assert page.value("document.body.innerText").count("Finished in state") <= 1  # that of the flow run itself
    page.click("Artifacts")
    page.wait_for("decided")


@needed
@pytest.mark.nightly
def test_mlflows_page_opens_on_the_runs(shown: Shown, page: Page) -> None:
    page.open(shown.addresses["MLflow"], width=1600)  # columns out of sight are not in the document
    page.wait_for("Run Name", "matching runs")
    assert "No runs" not in page.value("document.body.innerText")
    page.click(flow_runs(f"{shown.prefect}/api", shown.root)[0]["name"])
    page.wait_for("Created by", "Parameters (", "pass_at_10")
    assert "Metric\nValue\ngreedy\n" in page.value("document.body.innerText")  # the headline comes first


@pytest.mark.nightly
def test_a_run_beside_it_is_on_its_pages(shown: Shown) -> None:
    """With a server of its own on the same database: the end of `graft ui` costs it nothing."""
    before = flow_runs(f"{shown.prefect}/api", shown.root)
    tiny_project.graft(shown.root, "retrain", "-S", "seed=6")
    after = flow_runs(f"{shown.prefect}/api", shown.root)
    assert [run["id"] for run in after][: len(before)] == [run["id"] for run in before]
    (new,) = after[len(before) :]
    assert new["state_name"] == "Completed"
    asked = {"flow_runs": {"id": {"any_": [new["id"]]}}}
    tasks = httpx.post(f"{shown.prefect}/api/task_runs/filter", json=asked).json()
    assert sorted(task["name"] for task in tasks) == sorted(stage_ids(1))


@pytest.mark.parametrize(
    ("number", "code"), nightly_but_first([(signal.SIGKILL, -9), (signal.SIGINT, 0), (signal.SIGTERM, 143)])
)
def test_it_ends_with_all_that_it_started(done: Path, number: signal.Signals, code: int) -> None:
    marker = f"{done} {number}"
    override(done / "params.yaml", ["machine.tracking.uri=sqlite:///mlflow.db"])
    process = tiny_project.start(done, "ui", UI_MARKER=marker)
    first_lines(process)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (code, "")
    assert left_after_a_while(marker) == []
