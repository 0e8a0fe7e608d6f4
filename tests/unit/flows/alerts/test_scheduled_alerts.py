"""The alerts of one scheduled run after the other: a story in the files of a project, with a receiver on loopback."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Crashed, Failed

from flows.alerts.alert import Memory
from flows.alerts.scheduled_alerts import check_schedule, scheduled_alerts, scheduled_times
from flows.history.run_history import Entry, entries, write_entry
from tasks.artifacts import read_json, write_json
from tasks.errors import GraftError
from tasks.layout import Layout
from tests.support.stage_params import REPOSITORY
from tests.support.webhooks import Webhook, webhook
from tests.unit.flows.alerts.test_alert import AUDIT, ENTRY, promotion

ID = "PREFECT__RUNTIME__FLOW_RUN__ID"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    with webhook() as receiver:
        monkeypatch.setenv("GRAFT_ALERTS", receiver.address())
        yield receiver


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A project whose last scheduled run has number 1; the present one has the id that Prefect's runtime has."""
    shutil.copy(REPOSITORY / "params.yaml", tmp_path)
    monkeypatch.setenv(ID, "present")
    write_entry(tmp_path, ENTRY.model_copy(update={"number": 1, "dvc_lock_md5": "first"}))
    return Layout(tmp_path)


def note(layout: Layout, number: int, **fields: object) -> Entry:
    entry = ENTRY.model_copy(update={"number": number, "flow_run": "present", "name": f"{number} · seed", **fields})
    write_entry(layout.root, entry)
    return entry


def test_a_run_that_succeeds_raises_what_its_files_say_once(
    layout: Layout, told: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(layout.promotion, promotion(0.1, 0.2, None))
    write_json(layout.audit(1), AUDIT)
    with scheduled_alerts(layout.root):
        note(layout, 2, dvc_lock_md5="second")
    assert told.titles() == ["policy promoted", "rewards err"]
    monkeypatch.setenv(ID, "later")
    with scheduled_alerts(layout.root):
        note(layout, 3, flow_run="later", dvc_lock_md5="second")  # repeats it
    monkeypatch.setenv(ID, "the last")
    with scheduled_alerts(layout.root):
        pass  # nothing new, which the history does not note
    assert len(told.posted) == 2


def fail(layout: Layout, is_noted: bool) -> None:
    if is_noted:
        note(layout, 2, done=False, line="failed: no disk")
    else:
        (layout.root / ".graft" / "history.jsonl").write_text("{")
    raise GraftError("no disk")


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_run_that_fails_is_one_alert_and_fails(layout: Layout, told: Webhook, is_noted: bool) -> None:
    """Also where the history, or what later alerts depend on, cannot be read."""
    (layout.root / ".graft" / "alerts.json").write_text("{")
    with pytest.raises(GraftError, match="no disk"), scheduled_alerts(layout.root):
        fail(layout, is_noted)
    assert told.titles() == ["run failed"]
    assert told.posted[0].body["message"] == ("2 · seed: failed: no disk" if is_noted else "failed: no disk")


def test_a_run_that_was_killed_is_found_once_by_the_next_or_by_serve(layout: Layout, told: Webhook) -> None:
    note(layout, 2, flow_run="dead", done=None)
    note(layout, 3, flow_run="by hand", done=None, scheduled=False)
    for _ in range(2):
        check_schedule(layout.root, [])
    assert told.titles() == ["run killed"]
    assert [(entry.number, entry.done) for entry in entries(layout.root)] == [(1, True), (2, False), (3, None)]
    assert told.posted[0].body["message"] == "2 · seed: killed, or the machine went down"


@pytest.mark.slow
def test_a_run_that_failed_on_a_full_disk_was_not_killed(layout: Layout, told: Webhook, prefect_api: str) -> None:
    """Its alert was sent, though the history could not note its end."""

    @flow
    def scheduled() -> None:
        return

    with temporary_settings({PREFECT_API_URL: prefect_api}):
        with get_client(sync_client=True) as client:
            states = (Failed(message="Flow run encountered an exception: GraftError: no space left"), Crashed())
            failed, crashed = (client.create_flow_run(scheduled, state=state) for state in states)
        for number, run in enumerate((failed, crashed), start=2):
            note(layout, number, flow_run=str(run.id), done=None)
        check_schedule(layout.root, [])
    assert [post.body["message"].partition(" ")[0] for post in told.posted] == ["3"]
    assert [entry.done for entry in entries(layout.root)] == [True, False, False]
    assert entries(layout.root)[1].line == "failed: GraftError: no space left"


def remember(layout: Layout, until: datetime, schedule: IntervalSchedule | CronSchedule) -> None:
    write_json(layout.root / ".graft" / "alerts.json", Memory(until=until, schedules=(schedule.model_dump_json(),)))


NIGHTLY = CronSchedule(cron="0 3 * * *", timezone="Europe/Berlin")


@given(
    st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)),
    st.integers(0, 40 * 24 * 60),
)
def test_each_night_has_one_time_on_both_changes_of_the_clock(since: datetime, minutes: int) -> None:
    until = since + timedelta(minutes=minutes)
    times = scheduled_times([NIGHTLY.model_dump_json()], since, until)
    days = [time.astimezone(times[0].tzinfo).date() for time in times]
    assert len({*days}) == len(days)
    assert all(since < time <= until for time in times)
    assert abs(len(days) - minutes / 1440) < 1.05


def test_two_weeks_without_a_run_are_one_alert(layout: Layout, told: Webhook) -> None:
    remember(layout, datetime.now(UTC) - timedelta(days=14), NIGHTLY)
    check_schedule(layout.root, [NIGHTLY])
    check_schedule(layout.root, [NIGHTLY])
    assert told.titles() == ["runs missed"]
    assert told.posted[0].body["message"].startswith("13 scheduled runs from 20")


def test_another_schedule_has_missed_nothing(layout: Layout, told: Webhook) -> None:
    hourly = IntervalSchedule(interval=timedelta(hours=1))
    remember(layout, datetime.now(UTC) - timedelta(days=14), NIGHTLY)
    check_schedule(layout.root, [hourly])
    later = hourly.model_copy(update={"anchor_date": hourly.anchor_date + timedelta(minutes=5)})
    remember(layout, datetime.now(UTC) - timedelta(hours=3.5), hourly)
    check_schedule(layout.root, [later])  # the same, begun at another time
    assert told.titles() == ["runs missed"]
    assert read_json(layout.root / ".graft" / "alerts.json", Memory).schedules == (later.model_dump_json(),)
