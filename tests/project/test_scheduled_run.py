"""Scheduled runs on a real Prefect server, of a tiny project: what they do, what they leave, what they say."""

import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from importlib.resources import files
from pathlib import Path

import psutil
import pytest
from prefect import Flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.schedules import CronSchedule
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Running

from flows.history.run_history import entries
from flows.prefect_runs.crashed_runs import flow_run_note, mark_crashed
from flows.retention.dvc_cache import saved_locks
from flows.scheduling.serve import _described, schedule_of
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.machine import Tracking
from tests.support.aftermath import left_after_a_while
from tests.support.champions import promote
from tests.support.flow_runs import flow_runs, mlflow_states, states, temporary_servers
from tests.support.params_file import override
from tests.support.processes import holding
from tests.support.tiers import nightly_but_first
from tests.support.tiny_project import begin, commit, dvc, graft, ran, run
from tests.support.webhooks import Webhook, webhook

FLOW = "from flows.scheduling.scheduled_run import scheduled; scheduled()"


def scheduled(root: Path, api: str, code: int = 0, **more: str) -> list[str]:
    """One scheduled run, as a worker starts it; what it printed."""
    told = run(root, sys.executable, "-c", FLOW, code=code, PREFECT_API_URL=api, **more)
    return told.stdout.splitlines()


def lines(root: Path) -> list[str]:
    return [entry.line for entry in entries(root)]


def changed(root: Path) -> dict[str, str]:
    """As git sees it: file → lines added and removed."""
    told = run(root, "git", "diff", "--numstat").stdout.splitlines()
    return {name: f"+{added} -{removed}" for added, removed, name in (line.split("\t") for line in told)}


@pytest.fixture(scope="module")
def root(by_graft: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished project with a folder of problems, all committed. The tests below are one story, in their order."""
    root = tmp_path_factory.mktemp("scheduled") / "project"
    run(by_graft, "cp", "-r", str(by_graft), str(root))
    (root / "data").mkdir()
    (root / "data" / "a.jsonl").write_text('{"question": "1 and 1?", "answer": 2}\n')
    override(
        root / "params.yaml",
        [
            *["problems.path=data", "problems.source=jsonl", "machine.contract.action=none"],
            "machine.tracking.uri=sqlite:///mlflow.db",
        ],
    )
    commit(root)
    return root


@pytest.fixture(scope="module")
def alerts() -> Iterator[Webhook]:
    """What receives them."""
    with webhook() as receiver:
        yield receiver


@pytest.mark.slow
def test_the_first_run_does_the_job_and_says_what_came_of_it(root: Path, prefect_api: str, alerts: Webhook) -> None:
    told = scheduled(root, prefect_api, GRAFT_ALERTS=alerts.address())
    assert alerts.titles() == ["policy promoted"]
    line = "the first scheduled run here. Promoted: as ever"
    assert told[-1] == line
    assert lines(root) == [line]
    shown = graft(root, "history").stdout.splitlines()
    (entry,) = entries(root)
    assert shown[-1].startswith(f"{entry.when[:16]}  {entry.name} ")
    assert entry.name.startswith("1 · first run · 0.")
    (found,) = flow_runs(prefect_api, root)
    assert found["name"] == entry.name
    assert ran(root)[-1] == "promote"
    assert changed(root).keys() <= {"dvc.lock"}


@pytest.mark.slow
def test_without_news_nothing_is_done(root: Path, prefect_api: str, alerts: Webhook) -> None:
    promote(Layout(root))  # as if the run before had promoted its policy, whose digest then is another
    commit(root)
    (told,) = scheduled(root, prefect_api, GRAFT_ALERTS=alerts.address())
    assert len(alerts.posted) == 1
    assert told.startswith("nothing new since 20")
    assert told.endswith(": no problems, params or sources; nothing was done")
    assert ran(root) == []
    assert changed(root) == {}
    assert len(lines(root)) == 1
    assert "nothing new, 1 ×" in graft(root, "history").stdout.splitlines()[-1]


@pytest.mark.slow
def test_a_run_that_fails_is_told_and_done_again(root: Path, prefect_api: str, alerts: Webhook) -> None:
    (root / "data" / "b.jsonl").write_text('{"question": "2 and 2?", "answer": 4}\n' * 2)
    dvc(root, "add", "-q", "data/b.jsonl")
    override(root / "params.yaml", ["update.beta=0.05"])
    commit(root)
    told = scheduled(root, prefect_api, code=1, TINY_FAIL="update@1", GRAFT_ALERTS=alerts.address())
    assert alerts.titles()[1:] == ["run failed"]
    assert alerts.posted[1].body["message"] == f"{entries(root)[-1].name}: {told[-1]}"
    assert told[-1] == lines(root)[-1] == "failed: update@1: told to fail; unset TINY_FAIL"
    told = scheduled(root, prefect_api)
    line = "beta 0.05, problems 1 → 3. Promoted: as ever"
    assert told[-1] == lines(root)[-1] == line
    assert len(lines(root)) == 3


@pytest.mark.slow
def test_it_went_on_from_the_champion_as_with_s(root: Path) -> None:
    assert changed(root) == {"params.yaml": "+1 -1", "dvc.lock": changed(root)["dvc.lock"]}
    params = (root / "params.yaml").read_text()
    assert "  base: champion/policy  " in params


@pytest.mark.slow
def test_prefect_and_mlflow_have_the_line_and_the_digest(root: Path, prefect_api: str) -> None:
    states = [(found["state_type"], found["state"]["message"]) for found in flow_runs(prefect_api, root)]
    assert [kind for kind, _ in states] == ["COMPLETED", "COMPLETED", "FAILED", "COMPLETED"]
    assert states[-1][1] == lines(root)[-1]
    assert states[1][1].startswith("nothing new since")
    code = (
        "import json, mlflow\n"
        "client = mlflow.MlflowClient('sqlite:///mlflow.db')\n"
        "runs = client.search_runs(['1'], \"tags.problems_sha256 != ''\", order_by=['start_time'])\n"
        "tags = [(run.info.status, run.data.tags) for run in runs]\n"
        "print(json.dumps([[status, own.get('line'), own['problems_sha256']] for status, own in tags]))"
    )
    (first, failed, last) = json.loads(run(root, sys.executable, "-c", code).stdout.splitlines()[-1])
    assert [first[:2], last[:2]] == [["FINISHED", lines(root)[0]], ["FINISHED", lines(root)[-1]]]
    assert failed[:2] == ["FAILED", None]
    assert first[2] != failed[2] == last[2]


@pytest.mark.slow
def test_beside_another_run_it_is_skipped(root: Path, prefect_api: str) -> None:
    process = holding(root)
    (told,) = scheduled(root, prefect_api)
    assert told.startswith(f"skipped: {root}: graft retrain (process {process.pid}, since ")
    process.communicate("")
    assert flow_runs(prefect_api, root)[-1]["state_type"] == "COMPLETED"


@pytest.mark.slow
def test_files_that_break_the_contract_are_an_alert_and_as_many_results_stay_as_are_kept(
    root: Path, prefect_api: str, alerts: Webhook
) -> None:
    commit(root)
    lines = [f'{{"question": "Of {n} pens 2 are red; how many are not?", "answer": {n - 2}}}\n' for n in (3, 4, 5)]
    (root / "pens.jsonl").write_text("".join(lines))
    sizes = [f"problems.{split}=1" for split in ("train", "validation", "test")]
    contract = ["problems.path=pens.jsonl", "machine.contract.action=warn"]
    override(root / "params.yaml", ["machine.schedule.keep=2", *contract, *sizes])
    assert len(saved_locks(root)) == 2
    told = scheduled(root, prefect_api, GRAFT_ALERTS=alerts.address())
    assert alerts.titles()[2:] == ["contract broken", "policy promoted"]
    assert told[-1].endswith(". Promoted: as ever")
    assert told[-2].startswith("removed: ")
    assert [lock.stem for lock in saved_locks(root)] == ["000002", "000003"]


@pytest.mark.slow
def test_a_run_at_work_is_not_taken_for_dead_where_the_clock_is_set(
    tmp_path: Path, prefect_api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of the boot, which a process's own is told from, moves along with the clock."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / str(os.getpid())).symlink_to(f"/proc/{os.getpid()}")
    boot = f"btime {int(psutil.boot_time())}"
    stat = Path("/proc/stat").read_text()
    assert boot in stat
    (tmp_path / "proc" / "stat").write_text(stat.replace(boot, f"btime {int(psutil.boot_time()) - 400 * 86_400}"))
    tracking = Tracking(tracker="mlflow", uri="", experiment="none")
    with temporary_settings({PREFECT_API_URL: prefect_api}), get_client(sync_client=True) as client:
        started = client.create_flow_run(Flow(fn=print, name="at work"), state=Running())
        with flow_run_note(tmp_path, started.id), monkeypatch.context() as later:
            later.setattr(psutil, "PROCFS_PATH", str(tmp_path / "proc"))
            assert mark_crashed(tmp_path, tracking) == []
            assert client.read_flow_run(started.id).state.is_running()


@pytest.mark.parametrize("cron", [
    "61 * * * *", "every night", "* * *", "", "0 0 3 * * *", "0 3 * * * * 2030", "0 0 30 2 *", "0 0 31 4 *", "@reboot",
])  # fmt: skip
def test_a_schedule_that_is_none_is_named(cron: str) -> None:
    with pytest.raises(GraftError, match=r'^--cron ".*": .*; write minute, hour, day, month and weekday: '):
        schedule_of(cron, None)


@pytest.mark.parametrize("every", [float("inf"), float("nan"), 0.5, -1.0, 1e14])
def test_an_interval_that_is_none_is_named(every: float) -> None:
    with pytest.raises(GraftError, match=r"^--every .*: write seconds, from 1 to 31536000 \(a year\)"):
        schedule_of(None, every)


@pytest.mark.parametrize("cron", ["0 3 * * *", "0 0 29 2 *", "@daily", "0 0 L * sun#5"])
def test_a_schedule_is_shown_with_its_next_date(cron: str) -> None:
    schedule = schedule_of(cron, None)
    assert isinstance(schedule, CronSchedule)
    shown = _described(schedule)
    assert datetime.strptime(shown, f'at "{cron}" ({schedule.timezone}), next on %Y-%m-%d at %H:%M,') > datetime.now()


@pytest.mark.parametrize(("name", "clock", "is_right"), [
    ("Europe/Berlin", "Asia/Tokyo", False), ("Europe/Berlin", "Africa/Lagos", False),  # Lagos has no summer time
    ("Europe/Berlin", "Europe/Berlin", True), ("Europe/Berlin", "Europe/Rome", True),
])  # fmt: skip
def test_the_zone_of_a_schedule_is_that_of_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, clock: str, is_right: bool
) -> None:
    """A file of zones with the name of one and the content of another, as /etc/timezone beside a copied localtime."""
    file = tmp_path / name
    file.parent.mkdir()
    file.write_bytes(files("tzdata").joinpath("zoneinfo", *clock.split("/")).read_bytes())
    with monkeypatch.context() as context:
        context.setenv("TZ", str(file))
        time.tzset()
        context.setattr("tzlocal.unix._cache_tz_name", None)
        if is_right:
            schedule = schedule_of("0 3 * * *", None)
            assert isinstance(schedule, CronSchedule)
            assert schedule.timezone == name
        else:
            with pytest.raises(GraftError, match=f"^--cron: the time zone {name} by its name is not that of the clock"):
                schedule_of("0 3 * * *", None)
    time.tzset()


def test_a_cron_is_in_the_local_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    for zone in ("Europe/Berlin", ":Asia/Tokyo"):
        monkeypatch.setenv("TZ", zone)
        schedule = schedule_of("0 3 * * *", None)
        assert isinstance(schedule, CronSchedule)
        assert schedule.timezone == zone.removeprefix(":")
    for zone in ("Europe/Berlino", "CET-1CEST"):
        monkeypatch.setenv("TZ", zone)
        with pytest.raises(GraftError, match=f"^--cron: no time zone '{zone}'; set the variable TZ to one"):
            schedule_of("0 3 * * *", None)


@pytest.mark.parametrize(("cron", "every"), [(None, None), ("0 3 * * *", 60.0)])
def test_one_schedule_is_asked_for(cron: str | None, every: float | None) -> None:
    with pytest.raises(GraftError, match=r"^graft serve: when\? Write one of --cron"):
        schedule_of(cron, every)


@pytest.mark.slow
@pytest.mark.parametrize("own_server", nightly_but_first([True, False]))
def test_a_killed_run_is_marked_by_the_next_one(done: Path, prefect_api: str, own_server: bool) -> None:
    """In Prefect, on a server or in the temporary one's database, and in MLflow."""
    override(done / "params.yaml", ["machine.tracking.uri=sqlite:///mlflow.db"])
    where = {} if own_server else {"PREFECT_API_URL": prefect_api}
    process = begin(done, "promote", "retrain", "-S", "evaluation.temperature=0.5", TINY_MARK=str(done), **where)
    assert len(temporary_servers(process.pid)) == own_server
    process.kill()
    process.wait()
    assert left_after_a_while(str(done)) == []  # neither Prefect's server nor what talks to MLflow
    assert len(list((done / ".graft" / "flows").iterdir())) == 1
    graft(done, "retrain", **where)
    assert list((done / ".graft" / "flows").iterdir()) == []
    assert states(done, prefect_api, own_server) == ["CRASHED", "COMPLETED"]
    assert mlflow_states(done) == ["KILLED", "FINISHED"]
