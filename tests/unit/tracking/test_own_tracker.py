"""A tracker of the user's, the example of docs/extend.md, gets what MLflow gets."""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from flows.ui import pages
from tasks.artifacts import write_text
from tasks.core.metrics_files import flatten
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.params import Params, dump_stage_params
from tasks.tracking.recorder import Recorder
from tasks.tracking.tags import RUN_NAME
from tasks.tracking.tracker import check_tracker
from tests.support.extensions import examples_project
from tests.support.mlflow_runs import record
from tests.support.stage_params import shipped_params


def tracking(uri: str, tracker: str = "lines:Lines") -> Params:
    return shipped_params(machine={"tracking": {"tracker": tracker, "uri": uri}})


@pytest.fixture
def layout(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> Layout:
    examples_project(layout.root, monkeypatch)
    return layout


def lines(file: Path) -> dict[str, list[dict[str, Any]]]:
    """Run → its lines."""
    found = defaultdict(list)
    for line in file.read_text().splitlines():
        values = json.loads(line)
        found[values.pop("run")].append(values)
    return found


def numbers(own: list[dict[str, Any]], name: str) -> list[tuple[int, float]]:
    return [(p["step"], p["value"]) for line in own for p in line.get("points", ()) if p["name"] == name]


def test_it_gets_the_run_its_stages_their_numbers_and_files(layout: Layout) -> None:
    params = tracking("runs.jsonl")
    run_id = record(layout, params, **{RUN_NAME: "1 · first run"})
    assert run_id is not None
    found = lines(layout.root / "runs.jsonl")
    start, *rest = found.pop(run_id)
    assert start["start"]["params"] == flatten(dump_stage_params(params))
    assert start["start"]["tags"].items() >= {RUN_NAME: "1 · first run", "prefect.flow_run_id": "f-1"}.items()
    assert (start["start"]["name"], start["start"]["headline"][0]) == ("1 · first run", "greedy")
    assert numbers(rest, "epoch/mean_reward") == [(1, 0.1), (2, 0.2)]
    assert numbers(rest, "greedy") == [(0, 0.7)]
    assert rest[-1] == {"end": "FINISHED"}
    stages = {own[0]["start"]["name"]: own for own in found.values()}
    each = {f"{stage}@{number}" for stage in ("reward", "update") for number in (1, 2)}
    assert set(stages) == {"problems", *each, "evaluate@after", "promote"}
    assert {own[0]["start"]["parent"] for own in stages.values()} == {run_id}
    assert numbers(stages["update@2"], "kl") == [(2, 0.02)]
    assert all(own[-1] == {"end": "FINISHED"} for own in stages.values())

    recorder = Recorder(layout, params, {})
    write_text(layout.page, "a page")
    recorder.files(layout.page)
    failed = recorder.finish("FAILED")
    assert recorder.links(layout.page) == {}
    _, *own = lines(layout.root / "runs.jsonl")[str(failed)]
    assert (own[0], own[-1]) == ({"artifact": "run/page.html"}, {"end": "FAILED"})
    assert not (layout.root / "mlflow.db").exists()


@pytest.mark.parametrize(
    ("uri", "text", "problem"),
    [
        ("run", None, r"IsADirectoryError: .*'run'; fix machine\.tracking\.uri"),
        ("runs.jsonl", "class Lines:\n    pass\n", r"machine\.tracking\.tracker: lines:Lines: .*needs 2 arguments"),
        ("runs.jsonl", "def Lines(*store):\n    pass\n", r"lines:Lines is no tracker; let it inherit tasks\.tracking"),
    ],
)
def test_one_that_fails_is_a_warning(
    layout: Layout, uri: str, text: str | None, problem: str, capfd: pytest.CaptureFixture[str]
) -> None:
    if text:
        (layout.root / "lines.py").write_text(text)
    assert record(layout, tracking(uri)) is None
    (warning,) = capfd.readouterr().err.splitlines()
    assert re.search(rf"^warning: lines:Lines \({uri}\): .*{problem}", warning)


def test_a_name_that_is_not_there_is_an_error_before_the_run(layout: Layout) -> None:
    with pytest.raises(GraftError, match=r"^machine\.tracking\.tracker: .*lines\.py defines no 'Line' .*'Lines'"):
        check_tracker(layout.root, tracking("x", "lines:Line").machine.tracking)


def test_its_pages_are_not_those_of_mlflow(tmp_path: Path) -> None:
    shown = dict(pages(tmp_path, tracking("http://127.0.0.1:9").machine.tracking, None, None, ""))
    assert [line.split()[0] for line in shown] == ["page", "Prefect"]
