"""Expected duration of a stage: the median of the last runs with the most similar params."""

from pathlib import Path

import pytest

from flows.stages.durations import MAX_RUNS, ExpectedSeconds, expected_seconds, record_duration
from tasks.layout import Layout
from tasks.params.file import load_params, overridden
from tasks.params.params import Params

ROOT = Path(__file__).parents[3]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / "dvc.yaml").symlink_to(ROOT / "dvc.yaml")
    return Layout(tmp_path)


def params(*assignments: str) -> Params:
    path = ROOT / "params.yaml"
    return overridden(path, path.read_text(), assignments)[1]


def expect(layout: Layout, address: str, *assignments: str) -> ExpectedSeconds | None:
    return expected_seconds(layout, params(*assignments), [address])[address]


def test_it_is_the_median_of_the_last_runs_and_unknown_without_any(layout: Layout) -> None:
    for seconds in (1000.0, 9.0, 1.0, 3.0, 2.0, 8.0):
        record_duration(layout, "search@1", params(), seconds)
    assert MAX_RUNS == 5
    assert expect(layout, "search@1") == ExpectedSeconds(3.0)
    assert expect(layout, "select@1") is None


def test_a_new_round_is_expected_to_take_as_long_as_the_others(layout: Layout) -> None:
    for round, seconds in enumerate((4.0, 6.0, 20.0), start=1):
        record_duration(layout, f"search@{round}", params(), seconds)
    assert expect(layout, "search@7") == ExpectedSeconds(6.0)
    assert expect(layout, "search@3") == ExpectedSeconds(20.0)


def test_only_runs_with_the_most_similar_params_count(layout: Layout) -> None:
    for own, seconds in ((params("problems.train=2000"), 100.0), (params(), 10.0), (params(), 12.0)):
        record_duration(layout, "search@1", own, seconds)
    assert expect(layout, "search@1") == ExpectedSeconds(11.0)
    assert expect(layout, "search@1", "problems.train=2000") == ExpectedSeconds(100.0)
    other = expect(layout, "search@1", "problems.train=2000", "search.simulations=32")
    assert other == ExpectedSeconds(100.0, ("search.simulations",))


@pytest.mark.parametrize("assignment", ["seed=7", "rounds=2", "machine.tracking.experiment=other", "update.beta=0.5"])
def test_params_that_the_stage_does_not_use_do_not_count(layout: Layout, assignment: str) -> None:
    record_duration(layout, "search@1", params(), 10.0)
    assert expect(layout, "search@1", assignment) == ExpectedSeconds(10.0)


def test_a_broken_record_is_ignored_and_replaced(layout: Layout) -> None:
    record_duration(layout, "promote", params(), 10.0)
    layout.seconds("promote").write_text("{")
    assert expect(layout, "promote") is None
    record_duration(layout, "promote", params(), 4.0)
    assert expect(layout, "promote") == ExpectedSeconds(4.0)


def test_a_duration_that_cannot_be_written_is_a_warning(layout: Layout, capfd: pytest.CaptureFixture[str]) -> None:
    (layout.root / ".graft").write_text("no folder")
    record_duration(layout, "promote", load_params(ROOT / "params.yaml"), 4.0)
    assert capfd.readouterr().err.startswith("warning: how long promote took is not noted (")
