"""Alerts reach real servers on loopback; one that refuses or is away is named without what its address hides."""

import os
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.alerts.alert import Alert
from flows.alerts.channels import send, try_channels
from tasks.core.loopback import free_port
from tasks.errors import GraftError
from tests.support.drip_server import ANSWERS, drip_server
from tests.support.webhooks import webhook

SECRET = "g3heim-k4Zq"


@pytest.fixture(autouse=True)
def no_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAFT_ALERTS", raising=False)


def test_an_alert_reaches_each_address_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with webhook() as first, webhook() as second:
        monkeypatch.setenv("GRAFT_ALERTS", f" {first.address()}\n{second.address(SECRET)} ")
        send(
            tmp_path, [Alert("run.failed", f"3 · seed 7: no reply from http://u:{SECRET}@h"), Alert("run.killed", "4")]
        )
        send(tmp_path, [])
    for each in (first, second):
        assert each.titles() == ["run failed", "run killed"]
        assert [post.body["message"] for post in each.posted] == ["3 · seed 7: no reply from http://***@h", "4"]
    assert [post.path for post in second.posted] == [f"/{SECRET}"] * 2
    assert capfd.readouterr() == ("", "")


def test_an_address_that_does_not_accept_one_is_a_warning_without_its_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with webhook() as there, webhook(status=403) as refusing:
        away = f"json://user:{SECRET}@127.0.0.1:{free_port()}/{SECRET}"
        addresses = [away, refusing.address(SECRET), f"nobody://{SECRET}", there.address()]
        monkeypatch.setenv("GRAFT_ALERTS", " ".join(addresses))
        with temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{free_port()}/api"}):
            send(tmp_path, [Alert("policy.promoted", "5")])
    assert there.titles() == ["policy promoted"]
    out, err = capfd.readouterr()
    assert out == ""
    assert SECRET not in err
    warnings = err.splitlines()
    assert [line.split(": ")[2] for line in warnings[:3]] == [
        "GRAFT_ALERTS 1 (json://…)",
        "GRAFT_ALERTS 2 (json://…)",
        "GRAFT_ALERTS 3 (nobody://…)",
    ]
    assert warnings[2].endswith(": no address that Apprise knows; graft alerts test tries it again")
    assert warnings[3].startswith("warning: alerts: prefect http://127.0.0.1:")
    assert len(warnings) == 4


def test_a_test_says_of_each_address_if_it_accepted_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with webhook() as there, webhook(status=403) as refusing:
        monkeypatch.setenv("GRAFT_ALERTS", there.address())
        try_channels(tmp_path, said.append)
        assert said == ["GRAFT_ALERTS 1 (json://…): accepted"]
        monkeypatch.setenv("GRAFT_ALERTS", f"{there.address()} {refusing.address(SECRET)}")
        with pytest.raises(GraftError, match=r"^alerts: GRAFT_ALERTS 2 \(json://…\): not accepted; correct") as error:
            try_channels(tmp_path, said.append)
    assert there.titles() == ["test"] * 2
    assert "403" in said[-1]
    assert SECRET not in f"{said} {error.value}"


def test_without_an_address_the_variable_is_named(tmp_path: Path) -> None:
    with pytest.raises(GraftError, match=r"^GRAFT_ALERTS: no address; set this variable .*ntfy://ntfy\.sh/TOPIC"):
        try_channels(tmp_path, print)
    assert "GRAFT_ALERTS" not in os.environ


def test_an_address_that_never_ends_its_answer_holds_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("flows.alerts.channels.LIMIT", 0.5)
    with drip_server(ANSWERS[0][0], pause=0.05) as slow:
        monkeypatch.setenv("GRAFT_ALERTS", slow.replace("http", "json"))
        send(tmp_path, [Alert("run.failed", "6")])
    warning = "warning: alerts: GRAFT_ALERTS 1 (json://…): no answer in 0.5 s; graft alerts test tries it again\n"
    assert capfd.readouterr().err == warning
