"""`graft serve` with a Prefect server of its own: real processes, killed one after the other."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx
import psutil
import pytest
from prefect.client.schemas.schedules import IntervalSchedule

from flows.alerts.alert import Memory
from flows.prefect_runs.crashed_runs import Note
from flows.scheduling.watch import STILL
from tasks.artifacts import read_json, write_json
from tasks.core.loopback import free_port
from tasks.params.file import override
from tests.support.flow_runs import mlflow_states, states, temporary_servers, wait_until
from tests.support.processes import is_alive
from tests.support.tiny_project import begin, environment, ran
from tests.support.webhooks import Webhook, webhook

pytestmark = pytest.mark.slow


@pytest.fixture
def with_a_dead_run(done: Path) -> Path:
    """A project in which a run ended as the power did: none of its processes could say so, to Prefect or to MLflow."""
    override(done / "params.yaml", ["evaluation.temperature=0.5", "machine.tracking.uri=sqlite:///mlflow.db"])
    dead = begin(done, "promote", "retrain")
    wait_until(lambda: (done / "mlflow.db").exists() and mlflow_states(done) == ["RUNNING"])
    for process in [*psutil.Process(dead.pid).children(recursive=True), dead]:
        with suppress(psutil.NoSuchProcess):  # it ended by itself
            process.kill()
    dead.communicate()
    ran(done)
    return done


@pytest.fixture
def serving(with_a_dead_run: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "flows.cli.main", "serve", "--every", "20"]
    port = str(free_port())  # another test may take 4200 while the server is gone
    quick = environment(PREFECT_RUNNER_POLL_FREQUENCY="1", PREFECT_SERVER_API_PORT=port)
    with (with_a_dead_run / "serve.log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=with_a_dead_run, env=quick, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def alerts() -> Iterator[Webhook]:
    with webhook() as receiver:
        yield receiver


def test_of_all_runs_that_a_downtime_missed_one_starts(done: Path, alerts: Webhook) -> None:
    daily = IntervalSchedule(interval=timedelta(days=1))
    memory = Memory(until=datetime.now(UTC) - timedelta(days=3.5), schedules=(daily.model_dump_json(),))
    write_json(done / ".graft" / "alerts.json", memory)
    port = str(free_port())
    command = [sys.executable, "-m", "flows.cli.main", "serve", "--every", "86400"]
    quick = environment(PREFECT_RUNNER_POLL_FREQUENCY="1", PREFECT_SERVER_API_PORT=port, GRAFT_ALERTS=alerts.address())
    log = done / "serve.log"
    with log.open("w") as file:
        serving = subprocess.Popen(command, cwd=done, env=quick, stdout=file, stderr=file, start_new_session=True)
    try:
        wait_until(lambda: "scheduled every" in log.read_text(), serving)
        url = log.read_text().split()[-1]
        (deployment,) = httpx.post(f"{url}/deployments/filter", json={}).json()
        begun = datetime.now(UTC)

        def is_created(days: int) -> bool:
            """False where Prefect's server says 503, try again: another writer has its database."""
            state = {"type": "SCHEDULED", "state_details": {"scheduled_time": str(begun - timedelta(days=days))}}
            answer = httpx.post(f"{url}/deployments/{deployment['id']}/create_flow_run", json={"state": state})
            if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
                return False
            answer.raise_for_status()
            return True

        write_json(done / ".graft" / "alerts.json", memory)  # as if nobody had looked when it started
        for days in (3, 2, 1):
            wait_until(partial(is_created, days), serving)

        def ended() -> list[str]:
            runs = httpx.post(f"{url}/flow_runs/filter", json={}).json()
            due = [run for run in runs if datetime.fromisoformat(run["expected_start_time"]) < begun]
            return sorted(run["state"]["type"] for run in due)

        wait_until(lambda: ended() == ["CANCELLED", "CANCELLED", "COMPLETED"], serving)
        assert "the first scheduled run here" in log.read_text()
        assert alerts.titles() == ["runs missed", "runs missed", "policy promoted"]  # by the start, by the run
        assert all("3 scheduled runs from 20" in post.body["message"] for post in alerts.posted[:2])
    finally:
        serving.kill()
        serving.wait()


def test_what_arrives_starts_a_run_and_during_a_run_one_after_it(done: Path) -> None:
    """Hidden, temporary and equal files start none, and no run is cancelled or finds nothing new."""
    data, log = done / "data", done / "serve.log"
    data.mkdir()
    (data / "a.jsonl").write_text('{"question": "1 and 1?", "answer": 2}\n')
    override(
        done / "params.yaml", ["problems.path=data", "problems.source=jsonl", "machine.contract.action=none"]
    )  # the tiny stages read no problems
    command = [sys.executable, "-m", "flows.cli.main", "serve", "--watch", "data/"]
    quick = environment(PREFECT_RUNNER_POLL_FREQUENCY="1", PREFECT_SERVER_API_PORT=str(free_port()))
    ran(done)
    with log.open("w") as file:
        serving = subprocess.Popen(
            command, cwd=done, env=quick | {"TINY_HANG": "promote", "TINY_SECONDS": "20"}, stdout=file, stderr=file
        )
    try:
        wait_until(lambda: "scheduled when problems arrive in data/ as scheduled/" in log.read_text(), serving)
        wait_until(lambda: "promote" in ran(done), serving)  # the first run began by itself
        for name in (".b.jsonl.swp", "b.jsonl.tmp", "b.jsonl", "c.jsonl"):
            (data / name).write_text(f'{{"question": "Of {name}?", "answer": 4}}\n')
            time.sleep(STILL / 2)
        wait_until(lambda: "problems 1 → 3. Promoted" in log.read_text(), serving)
        (data / "d.jsonl").write_text('{"question": "3 and 3?", "answer": 6}\n')
        wait_until(lambda: "problems 3 → 4. Promoted" in log.read_text(), serving)
        url = log.read_text().splitlines()[0].split()[-1]
        runs = httpx.post(f"{url}/flow_runs/filter", json={"sort": "EXPECTED_START_TIME_ASC"}).json()
        ended = [run["state"]["message"].partition(".")[0] for run in runs if run["state"]["type"] != "RUNNING"]
        assert ended == ["the first scheduled run here", "problems 1 → 3", "problems 3 → 4"][: len(ended)]
        assert len(runs) == 3
        serving.send_signal(signal.SIGINT)
        assert serving.wait(60) == 0
    finally:
        serving.kill()
        serving.wait()


def test_a_run_that_is_killed_is_an_alert_at_once(done: Path, alerts: Webhook) -> None:
    """The next run would send it, too, but is a day away."""
    override(done / "params.yaml", ["evaluation.temperature=0.5"])
    log = done / "serve.log"
    more = {"PREFECT_SERVER_API_PORT": str(free_port()), "GRAFT_ALERTS": alerts.address(), "TINY_HANG": "promote"}
    with log.open("w") as file:
        command = [sys.executable, "-m", "flows.cli.main", "serve", "--every", "86400"]
        quick = environment(PREFECT_RUNNER_POLL_FREQUENCY="1", **more)
        serving = subprocess.Popen(command, cwd=done, env=quick, stdout=file, stderr=file, start_new_session=True)
    try:
        wait_until(lambda: "scheduled every" in log.read_text(), serving)
        url = log.read_text().split()[-1]
        (deployment,) = httpx.post(f"{url}/deployments/filter", json={}).json()
        address = f"{url}/deployments/{deployment['id']}/create_flow_run"
        wait_until(lambda: httpx.post(address, json={}).is_success, serving)
        wait_until(lambda: ran(done)[-1:] == ["promote"], serving)
        (note,) = (done / ".graft" / "flows").iterdir()
        psutil.Process(read_json(note, Note).process.pid).kill()
        wait_until(lambda: alerts.titles() == ["run killed"], serving)
    finally:
        serving.kill()
        serving.wait()


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def test_it_sweeps_keeps_its_server_up_and_leaves_none(
    with_a_dead_run: Path, serving: "subprocess.Popen[bytes]"
) -> None:
    """What died is marked at the start; a schedule outlives its server, at its birth too; a server no `kill -9`."""
    root, log = with_a_dead_run, with_a_dead_run / "serve.log"
    wait_until(lambda: "marked as crashed" in log.read_text(), serving)
    (first,) = temporary_servers(serving.pid)
    first.kill()  # it is about to be told of the schedule
    wait_until(lambda: "scheduled every 20 s as " in log.read_text(), serving)
    swept, told = log.read_text().splitlines()
    assert swept == "marked as crashed, their processes being gone: 1 · first run"
    assert states(root, "", own_server=True)[0] == "CRASHED"
    assert mlflow_states(root)[0] == "KILLED"
    url = told.rpartition(" ")[2]
    assert httpx.post(f"{url}/deployments/count").json() == 1
    (second,) = temporary_servers(serving.pid)
    second.kill()
    wait_until(lambda: not is_alive(second.pid), serving)
    wait_until(lambda: answers(url), serving)
    (third,) = temporary_servers(serving.pid)
    wait_until(lambda: "the first scheduled run here. Promoted: as ever" in log.read_text(), serving)
    assert ran(root)[-1] == "promote"
    serving.kill()
    serving.wait()
    wait_until(lambda: not is_alive(third.pid))
    assert not answers(url)
