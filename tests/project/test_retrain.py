"""The run as a Prefect flow on Prefect's temporary server: two runs of one project, seen in Prefect's database."""

import json
import re
import sqlite3
import subprocess
from pathlib import Path
from socket import gethostname
from typing import NamedTuple

import pytest

from flows.history.run_history import entries
from flows.reports.html.page import write_page
from flows.reports.publish import publish_page
from flows.run_session import retry_delays
from flows.stages.dvc_yaml import stage_ids
from tasks.params.file import load_params
from tasks.tracking.recorder import Recorder
from tests.support import finished_run, tiny_project
from tests.support.tiny_project import graft, ran, start

ADDRESSES = stage_ids(1)
BEFORE_FAILURE = ADDRESSES[: ADDRESSES.index("update@1")]


class History(NamedTuple):
    root: Path
    failed: "subprocess.CompletedProcess[str]"
    computed_before: list[str]
    finished: "subprocess.CompletedProcess[str]"
    computed_after: list[str]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """One run that fails at update@1, and the next one, which goes on to the end."""
    root = tiny_project.make(tmp_path_factory.mktemp("prefect") / "project", rounds=1)
    failed = graft(root, "retrain", "-S", "seed=0", code=2, TINY_FAIL="update@1")
    before = ran(root)
    finished = graft(root, "retrain", "-S", "seed=0", "--rounds", "1", TINY_WARN="update@1")
    after = ran(root)
    return History(root, failed, before, finished, after)


def rows(history: History, run: int, select: str) -> list[tuple[str, ...]]:
    """From Prefect's database, of its first or second flow run."""
    with sqlite3.connect(history.root / ".graft" / "prefect" / "prefect.db") as database:
        runs = database.execute("select id from flow_run order by start_time").fetchall()
        assert len(runs) == 2
        return database.execute(select, runs[run]).fetchall()


def states(history: History, run: int) -> dict[str, str]:
    query = "select name, state_name from task_run where flow_run_id = ? order by start_time"
    return dict(rows(history, run, query))  # type: ignore[arg-type]


def test_a_failed_stage_fails_the_flow_in_one_line(history: History) -> None:
    assert history.failed.stderr == "graft: update@1: told to fail; unset TINY_FAIL\n"
    assert history.computed_before == [*BEFORE_FAILURE, "update@1"]
    assert rows(history, 0, "select name, state_type from flow_run where id = ?")[0][1] == "FAILED"
    assert states(history, 0) == {**dict.fromkeys(BEFORE_FAILURE, "Completed"), "update@1": "Failed"}


def test_the_next_run_goes_on_where_it_stopped(history: History) -> None:
    assert history.computed_after == ADDRESSES[len(BEFORE_FAILURE) :]


def test_each_run_has_its_number_and_its_name_from_the_beginning(history: History) -> None:
    """Complete with the result if it came to its end; the same in Prefect and in the history."""
    first, second = (entry.name for entry in entries(history.root))
    assert first == "1 · first run"
    assert re.fullmatch(r"2 · first run · 0\.\d{3} → 0\.\d{3}", second)
    for run, name in enumerate((first, second)):
        assert rows(history, run, "select name from flow_run where id = ?") == [(name,)]
    head, _, failed, done, error = graft(history.root, "history", "-n", "2").stdout.splitlines()
    assert head.split() == ["time", "run", "minutes", "lead", "decision"]
    assert re.fullmatch(rf"20\S+ \d\d:\d\d  {first} +\d+\.\d +failed +", failed)
    assert re.fullmatch(rf"20\S+ \d\d:\d\d  {second} +\d+\.\d  \+0\.250 .* promoted \(auto\) *", done)
    assert error == "1: failed: update@1: told to fail; unset TINY_FAIL"


def test_each_stage_is_a_task_named_by_its_address_and_a_hit_shows_as_cached(history: History) -> None:
    found = states(history, 1)
    assert list(found) == ADDRESSES
    assert [address for address in found if found[address] == "Cached"] == BEFORE_FAILURE
    assert set(found.values()) == {"Cached", "Completed"}
    types = rows(history, 1, "select distinct state_type from task_run where flow_run_id = ?")
    assert types == [("COMPLETED",)]


def test_the_summary_of_a_run_lies_beside_it_and_names_its_page(history: History) -> None:
    query = "select key, type, description, data from artifact where flow_run_id = ? and key is not null order by key"
    ((key, type, description, text),) = rows(history, 1, query)
    page = history.root / "run" / "page.html"
    assert (key, type) == ("page", "markdown")
    assert json.loads(text) == f"decided\n\nin short\n\n`{page}` on `{gethostname()}`\n"  # no link: no MLflow server
    assert description == "decided"
    assert page.read_text() == "a page"
    assert rows(history, 0, query) == []  # it failed


def test_the_log_of_a_task_has_the_lines_of_its_stage_and_no_noise(history: History) -> None:
    query = (
        "select task_run.name, message from log join task_run on task_run.id = task_run_id where log.flow_run_id = ?"
    )
    found = rows(history, 1, f"{query} order by log.timestamp")
    ends = [(task, message) for task, message in found if message.startswith(task)]
    assert [task for task, _ in ends] == ADDRESSES
    assert re.fullmatch(r"promote ran \d+\.\d s", dict(ends)["promote"])
    assert re.fullmatch(r"problems unchanged \d+\.\d s", dict(ends)["problems"])
    assert ("update@1", "the stage says so") in found
    assert not [message for _, message in found if message.startswith("Finished")]
    (failure,) = [m for task, m in rows(history, 0, query) if task == "update@1" and "told to fail" in m][:1]
    assert "update@1: told to fail; unset TINY_FAIL" in failure


def test_a_page_that_cannot_be_written_is_a_warning(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    layout = finished_run.write(tmp_path, assignments=('machine.tracking.uri=""',))
    write_page(layout)
    layout.metrics("reward", 2).write_text("{")
    publish_page(layout, Recorder(layout, load_params(tmp_path / "params.yaml"), {}), 1)
    assert "warning: no page and no report of this run: " in capfd.readouterr().err
    assert not layout.page.exists()  # an older one would tell of another run
    assert not layout.account.exists()


def test_the_report_comes_last_and_stderr_is_quiet(history: History) -> None:
    *stages, report = history.finished.stdout.splitlines()
    assert [line.split()[0] for line in stages] == ADDRESSES
    assert report == f"report: {len(ADDRESSES)} stages, {len(BEFORE_FAILURE)} cached"
    assert history.finished.stderr == ""


@pytest.mark.slow
def test_what_may_pass_is_tried_again_and_nothing_else(done: Path, prefect_api: str) -> None:
    """A server that comes back while the run waits; the first failure of this project, a GraftError, had one try."""
    tries = ["-S", "machine.schedule.retries=4"]
    away = {"TINY_AWAY": "promote", "PREFECT_API_URL": prefect_api}
    process = start(done, "retrain", "-S", "evaluation.temperature=0.5", *tries, **away)
    assert process.stderr is not None
    assert process.stderr.readline() == "warning: promote: promote: no server; try 1 of this stage\n"
    (done / "server_is_up").touch()
    _, told = process.communicate(timeout=200)
    assert process.returncode == 0
    assert "a fault" not in told


@pytest.mark.slow
def test_after_the_last_try_the_run_stops_with_the_error(done: Path, prefect_api: str) -> None:
    tries = ["-S", "machine.schedule.retries=2"]
    away = {"TINY_AWAY": "promote", "PREFECT_API_URL": prefect_api}
    told = graft(done, "retrain", *tries, "-S", "evaluation.temperature=0.5", code=2, **away)
    assert told.stderr.splitlines()[-1] == "graft: promote: no server"
    assert ran(done).count("promote") == 3


def test_the_delay_doubles_up_to_an_hour() -> None:
    params = load_params(tiny_project.REPOSITORY / "params.yaml").machine.schedule
    assert retry_delays(params) == [10, 20, 40]
    assert retry_delays(params.model_copy(update={"retries": 10}))[-2:] == [2560, 3600]
