"""`graft serve` with a Prefect server of its own: real processes, killed one after the other."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx
import psutil
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.alerts.alert import Memory
from flows.prefect_runs.crashed_runs import Note
from flows.prefect_runs.temporary_server import TemporaryServer
from flows.scheduling.deployment import project_name
from flows.scheduling.serve import _register, retry_while_restarting, serve
from flows.scheduling.watch import STILL
from tasks.artifacts import read_json, write_json
from tasks.core.loopback import answers, free_port
from tasks.errors import TransientError
from tests.support.flow_runs import mlflow_states, states, temporary_servers, wait_until
from tests.support.params_file import override
from tests.support.processes import is_alive
from tests.support.tiny_project import begin, environment, ran, run
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


@contextmanager
def serving(root: Path, *schedule: str, **more: str) -> Iterator["subprocess.Popen[bytes]"]:
    """`graft serve`, whose words are in `serve.log` there, with a Prefect server that looks for runs each second."""
    port = str(free_port())  # another test may take 4200 while the server is gone
    quick = environment(PREFECT_RUNNER_POLL_FREQUENCY="1", PREFECT_SERVER_API_PORT=port, **more)
    command = [sys.executable, "-m", "flows.cli.main", "serve", *schedule]
    with (root / "serve.log").open("w") as log:
        process = subprocess.Popen(command, cwd=root, env=quick, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        print((root / "serve.log").read_text())  # pytest shows it if the test fails


def address_and_deployment(root: Path, process: "subprocess.Popen[bytes]") -> tuple[str, str]:
    """Of the server's API, and of what creates a run of the schedule, once there is one."""
    log = root / "serve.log"
    wait_until(lambda: "scheduled every" in log.read_text(), process)
    url = log.read_text().split()[-1]
    (deployment,) = httpx.post(f"{url}/deployments/filter", json={}).json()
    return url, f"{url}/deployments/{deployment['id']}/create_flow_run"


@pytest.fixture
def alerts() -> Iterator[Webhook]:
    with webhook() as receiver:
        yield receiver


def test_of_all_runs_that_a_downtime_missed_one_starts(done: Path, alerts: Webhook) -> None:
    daily = IntervalSchedule(interval=timedelta(days=1))
    memory = Memory(until=datetime.now(UTC) - timedelta(days=3.5), schedules=(daily.model_dump_json(),))
    write_json(done / ".graft" / "alerts.json", memory)
    with serving(done, "--every", "86400", GRAFT_ALERTS=alerts.address()) as process:
        url, deployment = address_and_deployment(done, process)
        begun = datetime.now(UTC)

        def is_created(days: int) -> bool:
            """False where Prefect's server says 503, try again: another writer has its database."""
            state = {"type": "SCHEDULED", "state_details": {"scheduled_time": str(begun - timedelta(days=days))}}
            answer = httpx.post(deployment, json={"state": state})
            if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
                return False
            answer.raise_for_status()
            return True

        write_json(done / ".graft" / "alerts.json", memory)  # as if nobody had looked when it started
        for days in (3, 2, 1):
            wait_until(partial(is_created, days), process)

        def ended() -> list[str]:
            runs = httpx.post(f"{url}/flow_runs/filter", json={}).json()
            due = [run for run in runs if datetime.fromisoformat(run["expected_start_time"]) < begun]
            return sorted(run["state"]["type"] for run in due)

        wait_until(lambda: ended() == ["CANCELLED", "CANCELLED", "COMPLETED"], process)
        assert "the first scheduled run here" in (done / "serve.log").read_text()
        assert alerts.titles() == ["runs missed", "runs missed", "policy promoted"]  # by the start, by the run
        assert all("3 scheduled runs from 20" in post.body["message"] for post in alerts.posted[:2])


def test_what_arrives_starts_a_run_and_during_a_run_one_after_it(done: Path) -> None:
    """Hidden, temporary and equal files start none, and no run is cancelled or finds nothing new."""
    data, log = done / "data", done / "serve.log"
    data.mkdir()
    (data / "a.jsonl").write_text('{"question": "1 and 1?", "answer": 2}\n')
    read_by_no_stage = ["problems.path=data", "problems.source=jsonl", "machine.contract.action=none"]
    override(done / "params.yaml", read_by_no_stage)
    ran(done)
    with serving(done, "--watch", "data/", TINY_HANG="promote", TINY_SECONDS="8") as process:
        wait_until(lambda: "scheduled when problems arrive in data/ as scheduled/" in log.read_text(), process)
        wait_until(lambda: "promote" in ran(done), process)  # the first run began by itself
        for name, seconds in ((".b.jsonl.swp", 0), ("b.jsonl.tmp", 0), ("b.jsonl", STILL / 2), ("c.jsonl", 0)):
            (data / name).write_text(f'{{"question": "Of {name}?", "answer": 4}}\n')
            time.sleep(seconds)
        wait_until(lambda: "problems 1 → 3. Promoted" in log.read_text(), process)
        (data / "d.jsonl").write_text('{"question": "3 and 3?", "answer": 6}\n')
        wait_until(lambda: "problems 3 → 4. Promoted" in log.read_text(), process)
        url = log.read_text().splitlines()[0].split()[-1]
        runs = httpx.post(f"{url}/flow_runs/filter", json={"sort": "EXPECTED_START_TIME_ASC"}).json()
        ended = [run["state"]["message"].partition(".")[0] for run in runs if run["state"]["type"] != "RUNNING"]
        assert ended == ["the first scheduled run here", "problems 1 → 3", "problems 3 → 4"][: len(ended)]
        assert len(runs) == 3
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_a_run_that_is_killed_is_an_alert_at_once(done: Path, alerts: Webhook) -> None:
    """The next run would send it, too, but is a day away."""
    override(done / "params.yaml", ["evaluation.temperature=0.5"])
    with serving(done, "--every", "86400", GRAFT_ALERTS=alerts.address(), TINY_HANG="promote") as process:
        _, deployment = address_and_deployment(done, process)
        wait_until(lambda: httpx.post(deployment, json={}).is_success, process)
        wait_until(lambda: ran(done)[-1:] == ["promote"], process)
        (note,) = (done / ".graft" / "flows").iterdir()
        psutil.Process(read_json(note, Note).process.pid).kill()
        wait_until(lambda: alerts.titles() == ["run killed"], process)


def test_what_was_paused_in_prefect_stays_so_until_it_is_resumed_or_the_schedule_is_another(
    done: Path, prefect_api: str
) -> None:
    """`graft serve` says by which commands it is resumed."""
    name, log = project_name(done), done / "serve.log"
    nightly, hourly = CronSchedule(cron="0 3 * * *", timezone="UTC"), IntervalSchedule(interval=timedelta(hours=1))

    def is_on() -> tuple[bool, ...]:
        """The deployment and its schedules."""
        found = client.read_deployment_by_name(f"scheduled/{name}")
        return (not found.paused, *(each.active for each in found.schedules))

    def pause(deployment: bool, schedule: bool) -> None:
        found = client.read_deployment_by_name(f"scheduled/{name}")
        client.set_deployment_paused_state(found.id, deployment)
        client.update_deployment_schedule(found.id, found.schedules[0].id, active=not schedule)

    with temporary_settings({PREFECT_API_URL: prefect_api}), get_client(sync_client=True) as client:
        for schedule, deployment, itself in [(hourly, True, False), (nightly, True, True)]:
            _, commands = _register(done, name, schedule)
            assert (is_on(), commands) == ((True, True), [])
            pause(deployment, itself)
            _, commands = _register(done, name, schedule)
            assert (is_on(), len(commands)) == ((not deployment, not itself), deployment + itself)
        with serving(done, "--cron", "0 3 * * *", PREFECT_API_URL=prefect_api, TZ="UTC") as process:
            wait_until(lambda: "scheduled at" in log.read_text(), process)
            start, _, rest = log.read_text().partition(", paused in Prefect (resume it there: ")
            assert start == 'scheduled at "0 3 * * *" (UTC)'
            run(done, "sh", "-c", rest.partition("), as scheduled/")[0])
            assert is_on() == (True, True)
        _register(done, name, None)
        assert is_on() == (True,)  # only the watch


def test_an_error_of_any_type_is_repeated_if_the_server_was_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error while the server answers is raised: it would come again."""
    monkeypatch.setattr("flows.scheduling.serve.TICK", 0.1)
    server = TemporaryServer(home=tmp_path)
    calls = 0

    def work() -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            server.stop()
        elif calls == 2:
            server.restart_if_gone()
        elif calls == 3:
            return "done"
        raise RuntimeError(f"Runner failed to start, {calls}")

    with server:
        assert retry_while_restarting(server, work) == "done"
        with pytest.raises(RuntimeError, match="start, 4"):
            retry_while_restarting(server, work)


def test_a_server_of_the_users_that_goes_is_named(done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once: nobody starts it again."""
    server = TemporaryServer(home=tmp_path)

    def register(*_: object) -> None:
        assert answers(f"{url}/health"), "tried again"
        server.stop()
        raise RuntimeError("Runner failed to start")

    monkeypatch.setattr("flows.scheduling.serve._register", register)
    with (
        server as url,
        temporary_settings({PREFECT_API_URL: url}),
        pytest.raises(TransientError, match=f"^prefect: no answer from {url} .*; start that server"),
    ):
        serve(done, None, 3600.0, None, None)


def test_it_sweeps_keeps_its_server_up_and_leaves_none(with_a_dead_run: Path) -> None:
    """What died is marked at the start; a schedule outlives its server, at its birth too; a server no `kill -9`."""
    root, log = with_a_dead_run, with_a_dead_run / "serve.log"
    with serving(root, "--every", "20") as process:
        wait_until(lambda: "marked as crashed" in log.read_text(), process)
        (first,) = temporary_servers(process.pid)
        first.kill()  # it is about to be told of the schedule
        wait_until(lambda: "scheduled every 20 s as " in log.read_text(), process)
        swept, told = log.read_text().splitlines()
        assert swept == "marked as crashed, their processes being gone: 1 · first run"
        assert states(root, "", own_server=True)[0] == "CRASHED"
        assert mlflow_states(root)[0] == "KILLED"
        url = told.rpartition(" ")[2]
        assert httpx.post(f"{url}/deployments/count").json() == 1
        (second,) = temporary_servers(process.pid)
        second.kill()
        wait_until(lambda: not is_alive(second.pid), process)
        wait_until(lambda: answers(f"{url}/health"), process)
        (third,) = temporary_servers(process.pid)
        wait_until(lambda: "the first scheduled run here. Promoted: as ever" in log.read_text(), process)
        assert ran(root)[-1] == "promote"
    wait_until(lambda: not is_alive(third.pid))
    assert not answers(f"{url}/health")
