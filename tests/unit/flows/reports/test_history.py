"""Laws of the table of `graft history`: a month of nights fits on a screen, and older entries are readable."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from flows.history.run_history import count_nothing_new, entries, write_entry
from flows.process.workspace_lock import exclusive_lock, shared_lock
from flows.reports.history import WIDTH, list_nights, print_history
from flows.reports.html.month import render_month
from tasks.artifacts import write_json, write_text
from tasks.core.console import PlainConsole
from tasks.layout import Layout
from tasks.promote.challenger import approve_challenger, ask_approval
from tasks.records.promotion import Confirmation, Latest
from tests.support.champions import NOW, keep_weights, promote_weights
from tests.support.nights import night
from tests.support.records import make_kept, make_promotion

OLD = (
    '{"done": true, "dvc_lock_md5": null, "flow_run": "f", "line": "beta 0.05. Not promoted: 0.1 is not above 0.2", '
    '"mlflow_run": null, "name": "1 · beta 0.05 · 0.200 → 0.100", "number": 1, "scheduled": true, '
    '"when": "2026-11-22 03:10:00+00:00"}\n'
)
LEAD = "+0.250 (+0.10 … +0.40)"


def shown(root: Path, capsys: pytest.CaptureFixture[str], last: int = 31) -> list[str]:
    print_history(Layout(root), last, PlainConsole(highlight=False))
    printed = capsys.readouterr().out.splitlines()
    assert max(map(len, printed)) <= WIDTH
    return [line.rstrip() for line in printed[2:]]


def test_a_month_of_nights_has_a_line_each_and_one_for_those_with_nothing_new(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = f"2 · {', '.join(['a_param_of_my_own 0.123456789'] * 4)} · 0.200 → 0.300"
    ends = [
        night(1),
        night(2, name=long, decision=make_promotion(promoted=False, low=-0.1)),
        night(3, name="3 · problems 10 → 20", done=False, decision=None, line="failed: update@1: no server"),
        night(4, name="4 · problems 10 → 20", done=None, minutes=None, decision=None),
        *(night(number) for number in range(5, 32)),
    ]
    for entry in ends:
        write_entry(tmp_path, entry)
        for _ in range(3 if entry.number == 2 else 0):
            count_nothing_new(tmp_path)
    lines = shown(tmp_path, capsys)
    assert len(lines) == len(ends) + 2
    assert [line[:16] for line in lines[:2]] == [entry.when[:16] for entry in ends[:2]]
    assert re.split("  +", lines[0][18:]) == [ends[0].name, "61.2", LEAD, "promoted (auto)"]
    assert lines[1][18:].startswith("2 · a_param_of_my_own 0.1")
    assert "… · 0.200 → 0.300  " in lines[1]
    assert lines[1].endswith("+0.250 (-0.10 … +0.40)  not promoted")
    assert lines[2].endswith("  nothing new, 3 ×")
    assert lines[3].endswith("  failed")
    assert lines[4].endswith("  killed")
    assert lines[-1] == "3: failed: update@1: no server"
    assert [line[:20] for line in shown(tmp_path, capsys, last=2)] == ["2026-12-30 03:10  30", "2026-12-31 03:10  31"]


def test_an_unfinished_run_is_running_while_a_run_is_at_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_entry(tmp_path, night(1, done=None, minutes=None, decision=None))
    for lock, what, decision in (
        (exclusive_lock, "graft retrain", "running"),
        (exclusive_lock, "a scheduled run", "running"),
        (shared_lock, "graft stage search", "killed"),
        (exclusive_lock, "graft clean", "killed"),
    ):
        with lock(tmp_path, what):
            assert shown(tmp_path, capsys)[0].endswith(f"  {decision}")
    killed = {"pid": os.getpid(), "since": "2026-12-01 03:10:00", "what": "graft retrain"}
    (tmp_path / ".graft" / "lock").write_text(json.dumps(killed))  # of another container, where the pid was its own
    assert shown(tmp_path, capsys)[0].endswith("  killed")


def test_who_approved_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, weights in enumerate(("one", "two"), start=1):
        version = keep_weights(tmp_path, weights)
        write_entry(tmp_path, night(number, decision=ask_approval(make_promotion(version=version))))
    assert [line.split("  ")[-1] for line in shown(tmp_path, capsys)] == ["not approved", "waits"]
    approve_challenger(Layout(tmp_path), version, "", NOW)
    assert [line.split("  ")[-1] for line in shown(tmp_path, capsys)] == ["not approved", "promoted (person), served"]


def test_what_is_served_what_is_latest_and_what_was_left_behind_are_marked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout, version = Layout(tmp_path), promote_weights(tmp_path, "served")
    write_json(layout.latest / "latest.json", Latest(version="late", champion=version, environment="workflow"))
    for number, fields in enumerate(({}, {"worse": True, "version": "w"}, {"version": "late"}), start=1):
        decision = make_promotion(**{"promoted": number == 1, "version": version} | fields)
        write_entry(tmp_path, night(number, scheduled=True, decision=decision))
    words = [line.split("  ")[-1] for line in shown(tmp_path, capsys)]
    assert words == ["promoted (auto), served", "left behind", "not promoted, latest"]


def test_an_entry_of_an_older_version_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_text(tmp_path / ".graft" / "history.jsonl", OLD)
    (line,) = shown(tmp_path, capsys)
    assert line.startswith("2026-11-22 03:10  1 · beta 0.05 · 0.200 → 0.100  ")
    assert line.endswith("  not promoted")
    count_nothing_new(tmp_path)
    assert [entry.nothing_new for entry in entries(tmp_path)] == [1]


def test_what_was_served_and_the_latest_after_each_night(tmp_path: Path) -> None:
    levels = {"pass_at_1": 0.75, "champion_pass_at_1": 0.5}
    nights: list[tuple[dict[str, Any], bool, tuple[float | None, float | None]]] = [
        ({"promoted": False}, True, (None, 0.75)),  # there is no champion yet
        ({"promoted": True}, True, (0.75, 0.75)),
        ({"promoted": False, "champion_version": "c"}, True, (0.5, 0.75)),
        ({"promoted": False, "champion_version": "c", "worse": True}, True, (0.5, 0.5)),
        ({"promoted": False, "champion_version": "c"}, False, (0.5, None)),  # by hand
        ({"promoted": True, "champion_version": "c"}, False, (0.75, None)),
    ]
    for number, (fields, scheduled, _) in enumerate(nights, start=1):
        write_entry(tmp_path, night(number, scheduled=scheduled, decision=make_promotion(**levels | fields)))
    write_entry(tmp_path, night(7, done=False, decision=None))
    found = [(each.served, each.latest) for each in list_nights(Layout(tmp_path), 31)]
    assert found == [*(expected for *_, expected in nights), (None, None)]
    told = json.loads(json.dumps([each.json for each in list_nights(Layout(tmp_path), 2)]))
    ends = [(each["number"], each["changed"], each["outcome"], each["served"]) for each in told]
    assert ends == [(6, "learning_rate 0.0005", "promoted (auto)", 0.75), (7, "learning_rate 0.0005", "failed", None)]


def test_an_earlier_test_set_that_a_policy_may_have_lost_is_named_below_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = [make_kept(), make_kept(name="b.jsonl", lost=False)]
    write_entry(tmp_path, night(1, decision=make_promotion(kept=kept)))
    (_, line) = shown(tmp_path, capsys)
    assert line == "1: on a.jsonl (2864c512), 40 earlier test problems: -0.125 (-0.20 … -0.05)"


def test_the_page_of_a_month_has_all_of_each_night_and_runs_nothing_of_it(tmp_path: Path) -> None:
    attack = "<script>alert(1)</script>"
    sure = Confirmation(problems=200, fresh=True, uses=1, difference=0.2, low=0.125, high=0.275)
    full = make_promotion(problems=200, confirmation=sure, kept=[make_kept(name=attack)])
    write_entry(tmp_path, night(1, scheduled=True, name=f"1 · {attack} · 0.2 → 0.3", decision=full))
    write_entry(tmp_path, night(2, done=False, decision=None, line=attack))
    page = render_month(list_nights(Layout(tmp_path), 31))
    for told in (
        "+0.250 (+0.10 … +0.40)",
        "+0.200 (+0.12 … +0.28) on 200",
        "promoted (auto)",
        "40 earlier test problems",
    ):
        assert told in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 3
    assert "<script" not in page
    assert page.count("<polyline") == 2
    assert "served: 0.75 (0.685 to 0.805) at 1" in page  # Wilson's interval of 150 of 200
    assert "Not measured." in render_month([])


@pytest.mark.parametrize("size", [10**400, -(10**400), 0])
def test_numbers_of_any_size_are_drawn(tmp_path: Path, size: int) -> None:
    wide = make_promotion(problems=size, pass_at_1=1.7e308, difference=1.7e308, champion_version="c")
    write_entry(tmp_path, night(1, decision=wide).model_copy(update={"number": size}))
    write_entry(tmp_path, night(2, decision=make_promotion(problems=size, pass_at_1=-1.7e308)))
    chart = render_month(list_nights(Layout(tmp_path), 31)).partition("<svg")[2].partition("</svg")[0]
    assert "nan" not in chart
    assert "inf" not in chart
