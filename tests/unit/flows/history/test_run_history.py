"""The history of the runs of a workspace: unique numbers, and a line for each run."""

import shutil
from pathlib import Path

import pytest

from flows.history.run_history import RunHistory, add_failure, entries, find_lock, find_number
from tasks.artifacts import write_json, write_text
from tasks.layout import Layout
from tasks.params.file import load_params
from tests.support.params_file import override
from tests.support.records import make_promotion
from tests.support.stage_params import REPOSITORY


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Params as shipped, and the results of a run as far as its history reads them; the sources are links."""
    shutil.copy(REPOSITORY / "params.yaml", tmp_path)
    for name in ("tasks", "flows", "dvc.yaml"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    layout = Layout(tmp_path)
    write_json(layout.headline, {"before": 0.25, "greedy": 0.5})
    write_json(layout.promotion, make_promotion())
    write_text(tmp_path / "dvc.lock", "first")
    return layout


def begin(layout: Layout, *assignments: str) -> RunHistory:
    override(layout.root / "params.yaml", assignments)
    return RunHistory(layout, load_params(layout.root / "params.yaml"), "flow", scheduled=False)


def names(layout: Layout) -> list[str]:
    return [entry.name for entry in entries(layout.root)]


def test_every_run_has_a_number_of_its_own_however_it_ends(layout: Layout) -> None:
    begin(layout).finish("promoted", computed=True)
    begin(layout, "seed=7")  # killed
    begin(layout, "seed=8").fail("failed: no", None)
    add_failure(layout.root, "failed: params", "another flow")
    last = begin(layout, "seed=9")
    write_text(layout.root / "dvc.lock", "second")
    last.finish("not promoted", computed=True)
    assert names(layout) == [
        "1 · first run · 0.250 → 0.500",
        "2 · seed 7",
        "3 · seed 8",
        "4 · not begun",
        "5 · seed 9 · 0.250 → 0.500",
    ]
    assert [entry.done for entry in entries(layout.root)] == [True, None, False, False, True]
    assert [entry.line for entry in entries(layout.root)][1:4] == ["", "failed: no", "failed: params"]


def test_a_run_that_failed_after_it_began_has_one_entry(layout: Layout) -> None:
    begin(layout).fail("failed: no", None)
    assert add_failure(layout.root, "failed: no", "flow") == "1 · first run"
    assert len(entries(layout.root)) == 1


def test_a_run_that_computed_nothing_names_the_run_that_it_repeats(layout: Layout) -> None:
    begin(layout).finish("promoted", computed=True)
    write_text(layout.root / "dvc.lock", "second")
    begin(layout, "seed=7").finish("promoted", computed=True)
    write_text(layout.root / "dvc.lock", "first")
    for _ in range(2):
        begin(layout, "seed=0").finish("promoted", computed=False)
    write_text(layout.root / "dvc.lock", "third")
    begin(layout).finish("promoted", computed=False)  # restored from the cache, and new here
    assert [name.split(" · ")[1] for name in names(layout)] == [
        "first run",
        "seed 7",
        "repeats 1",
        "repeats 1",
        "same params",
    ]
    assert find_lock(layout.root, b"first") == find_number(layout.root, "1")


def test_the_run_of_mlflow_is_noted_once_it_is_known(layout: Layout) -> None:
    assert entries(layout.root) == []
    run = begin(layout)
    run.finish("promoted", computed=True)
    run.set_tracked_run("m1")
    assert [(e.number, e.line, e.mlflow_run) for e in entries(layout.root)] == [(1, "promoted", "m1")]
