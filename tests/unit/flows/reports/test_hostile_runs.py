"""Law: a run of others is compared, or refused by one line; none of its texts controls the terminal or a table."""

import io
import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from flows.reports.compare_command import compare
from flows.reports.problem_file import describe_files
from flows.reports.run_record import read_run_record
from tasks.core.console import PlainConsole
from tasks.core.terminal import make_table, visible
from tasks.errors import GraftError
from tests.support import finished_run
from tests.support.broken_files import case_numbers
from tests.support.hostile_values import CONTROLS, ESCAPES, hostile_record
from tests.support.tiers import nightly_but_first

MANY = case_numbers()


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Not to be changed."""
    layout = finished_run.write(tmp_path_factory.mktemp("run"))
    return dict(json.loads(read_run_record(layout).model_dump_json()))


def shown(root: Path, one: str, other: str) -> str:
    """What the terminal shows of two runs, and of the second one's page."""
    (root / "a.json").write_text(one)
    (root / "b.json").write_text(other)
    stream = io.StringIO()
    console = PlainConsole(file=stream, width=100)
    for names in (["a.json", "b.json"], ["b.json"]):
        try:
            compare([str(root / name) for name in names], root, root / "page.html", console)
        except GraftError as error:
            stream.write(str(error))
    return stream.getvalue()


@pytest.mark.parametrize("cases", nightly_but_first([range(12), MANY]), ids=["few", "many"])
def test_hostile_runs(record: dict[str, Any], tmp_path: Path, cases: range) -> None:
    valid = json.dumps(record)
    for number in cases:
        text = hostile_record(record, random.Random(number))
        assert not set(CONTROLS) & set(shown(tmp_path, valid, text)), number


def test_markup_in_a_name_or_value_is_shown_as_it_is(record: dict[str, Any], tmp_path: Path) -> None:
    """A closing tag without its opening one would be an error of Rich."""
    changed = {**record, "params": {**record["params"], ESCAPES: ESCAPES, "policy.base": "[/]a[bold]b"}}
    text = shown(tmp_path, json.dumps(record), json.dumps(changed))
    assert "[/]a[bold]b" in text
    assert visible(ESCAPES)[:20] in text


def test_ten_thousand_metrics_and_params_take_seconds(record: dict[str, Any], tmp_path: Path) -> None:
    """Of each section a hundred charts are drawn."""
    many = json.loads(json.dumps(record))
    many["metrics"]["reward@1"] |= {f"term{number}/mean": 0.5 for number in range(10_000)}
    many["metrics"]["evaluate@after"] |= {f"pass_at_{number}": 0.5 for number in range(10_000)}
    many["params"] |= {f"param{number}": "1" for number in range(10_000)}
    began = time.process_time()
    assert "… and 9700 more: --html FILE shows all" in shown(tmp_path, json.dumps(record), json.dumps(many))
    assert time.process_time() - began < 20  # of which 119 s were one page
    assert (tmp_path / "page.html").read_text().count("<figure>") < 500


@pytest.mark.parametrize(("section", "value"), [("outcomes", {"before": [], "after": []}), ("rewards", {"1": []})])
def test_a_run_without_problems_or_bars_is_refused(
    record: dict[str, Any], section: str, value: object, tmp_path: Path
) -> None:
    assert f"{section}." in shown(tmp_path, json.dumps(record), json.dumps({**record, section: value}))


def test_outcomes_of_other_problems_are_refused(record: dict[str, Any], tmp_path: Path) -> None:
    one, both = (json.loads(json.dumps(record)) for _ in range(2))
    for run, whens in ((one, ["after"]), (both, ["before", "after"])):
        for outcome in (outcome for when in whens for outcome in run["outcomes"][when]):
            outcome["problem_id"] = f"other-{outcome['problem_id']}"
    told = "b.json: none of the problems of its outcomes after the run is among those of"
    assert shown(tmp_path, json.dumps(record), json.dumps(one)).count(told) == 2
    assert shown(tmp_path, json.dumps(record), json.dumps(both)).count(told) == 1


@pytest.mark.parametrize("digits", ["9" * 400, "0" * 20 + "9" * 400, "9" * 5000, "²", "٣"])
def test_names_with_any_digits_are_no_rounds(record: dict[str, Any], tmp_path: Path, digits: str) -> None:
    """The chart of a measure has the rounds that a run may have."""
    named = json.loads(json.dumps(record))
    for stage in ("validate", "reward", "select", "update"):
        named["metrics"][f"{stage}@{digits}"] = {"pass_at_1_greedy": 0.5, "epoch/mean_reward": 0.5}
    named["metrics"]["evaluate@after"] |= {f"pass_at_{digits}": 0.5, f"pass_at_1_greedy_operations_{digits}": 0.5}
    for section in ("steps", "rewards"):
        named[section][digits] = named[section]["1"]
    shown(tmp_path, json.dumps(record), json.dumps(named))
    assert digits[:20] not in (tmp_path / "page.html").read_text().partition("<svg")[2]


def test_the_largest_numbers_are_drawn(record: dict[str, Any], tmp_path: Path) -> None:
    one, other = (json.loads(json.dumps(record)) for _ in range(2))
    for run, number in ((one, 1.79e308), (other, -1.79e308)):
        run["metrics"]["reward@1"]["epoch/mean_reward"] = number
        run["steps"]["1"]["kl"][0] = number
    other["examples"][0]["answer"] = 10**400
    shown(tmp_path, json.dumps(one), json.dumps(other))
    page = (tmp_path / "page.html").read_text()
    assert "nan" not in page.partition("<body>")[2].lower()
    assert "inf," not in page


def test_a_console_prints_texts_as_they_are() -> None:
    stream = io.StringIO()
    console = PlainConsole(file=stream, width=80)
    table = make_table(ESCAPES)
    table.add_row(ESCAPES)
    console.print(table)
    console.print(ESCAPES, f"a\u00a0b\u3000c {ESCAPES}")
    assert not set(CONTROLS) & set(stream.getvalue())
    assert stream.getvalue().count("[/red]") == 4
    assert "a b c" in stream.getvalue()


def test_a_file_with_codes_in_its_name_is_described_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{ESCAPES.replace('/', '')}.jsonl"
    (tmp_path / name).write_text('{"question": "1 + 1?", "answer": 2}\n')
    monkeypatch.chdir(tmp_path)
    from typer.testing import CliRunner

    from flows.cli.app import app

    assert "\x1b" in describe_files(name, "format", 0)
    printed = CliRunner().invoke(app, ["problems", name])
    assert printed.exit_code == 0
    assert not set(CONTROLS) & set(printed.output)
