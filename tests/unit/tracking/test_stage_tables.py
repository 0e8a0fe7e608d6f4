"""Tables of stages in MLflow: steps of an update, influence."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from tasks.artifacts import write_json, write_jsonl, write_text
from tasks.layout import Layout
from tasks.trajectories import RewardedTrajectory
from tests.support.groups import write_rewarded
from tests.support.mlflow_runs import children, parent_of, record_stage, store, update_recorded
from tests.support.selections import selected_by_influence

MAKE = Callable[..., RewardedTrajectory]


@pytest.mark.slow
def test_the_steps_of_an_update_are_curves_and_its_speed_is_only_that_of_computed_runs(layout: Layout) -> None:
    """A cached update has only their last points and the run of the others, as long as the store has that run."""
    write_json(layout.metrics("update", 1), {"kl": 0.5})
    write_json(layout.speed("update@1"), {"tokens_per_second": 1234.5})
    write_text(layout.steps(1), "step,kl,clip_ratio/low_mean\n1,0.25,0\n2,1e-05,0.5\n")
    computed, cached, again = (update_recorded(layout, cached) for cached in (False, True, True))
    for own in (computed, cached, again):
        new = own is computed
        for name, values in {"step/kl": [0.25, 1e-05], "step/clip_ratio/low_mean": [0, 0.5], "kl": [0.5]}.items():
            history = [(point.step, point.value) for point in store(layout).get_metric_history(own.info.run_id, name)]
            assert history == list(enumerate(values, start=1))[0 if new else -1 :]
        assert own.data.metrics.get("tokens_per_second") == (1234.5 if new else None)
        assert own.data.tags["curves"] == ("here" if new else computed.info.run_id)
        assert "tokens_per_second" not in store(layout).get_run(parent_of(own)).data.metrics
    store(layout).delete_run(computed.info.run_id)
    last = update_recorded(layout, cached=True)
    assert len(store(layout).get_metric_history(last.info.run_id, "step/kl")) == 2
    assert last.data.tags["curves"] == "here"


SELECTION = "run/rounds/1/selection.jsonl"


def select(layout: Layout, rewarded: RewardedTrajectory, influences: list[float | None]) -> None:
    """Write the files of the select stage of round 1."""
    write_jsonl(layout.selection(1), selected_by_influence(rewarded, influences))
    write_rewarded(layout.trajectories(1), [rewarded])
    write_json(layout.metrics("select", 1), {"number": 7})


def table(layout: Layout, run: Any, file: str) -> Any:
    """A table of a run as MLflow loads it, which only finds files that are tagged as tables."""
    from mlflow import set_tracking_uri

    set_tracking_uri(f"sqlite:///{layout.root}/mlflow.db")
    try:
        return store(layout).load_table(run.info.experiment_id, file, [run.info.run_id])
    finally:
        set_tracking_uri("")


@pytest.mark.slow
def test_the_extremes_of_influence_and_its_histogram_are_tables_of_the_select_stage(
    layout: Layout, make_trajectory: MAKE, capfd: pytest.CaptureFixture[str]
) -> None:
    rewarded = make_trajectory("p", [0.04 * member for member in range(25)])
    rng = random.Random(0)
    influences = [rng.gauss(0, 1e-11) for _ in range(25)]
    select(layout, rewarded, influences)
    run_id = record_stage(layout, "select@1", SELECTION, times=2)  # as after a delivery that failed: no row is doubled
    assert capfd.readouterr().err == ""
    client = store(layout)
    own = children(client, run_id)["select@1"]
    assert client.list_artifacts(run_id) == []
    assert {f.path for f in client.list_artifacts(own.info.run_id)} == {"influence.json", "influence_histogram.json"}

    ends = table(layout, own, "influence.json")
    order = sorted(range(25), key=lambda member: -influences[member])
    shown = [*order[:10], *reversed(order[-10:])]
    assert list(ends["end"]) == ["most"] * 10 + ["least"] * 10
    assert list(ends["rank"]) == [*range(1, 11), *range(1, 11)]
    assert list(ends["influence"]) == pytest.approx([influences[member] for member in shown], rel=1e-12, abs=0)
    assert list(ends["code"]) == [rewarded.trajectory.members[member].code for member in shown]
    assert list(ends["reward"]) == pytest.approx([rewarded.rewards[member].reward for member in shown])
    assert list(ends["selected"]) == [influences[member] > 0 for member in shown]
    assert set(ends["question"]) == {"p?"}

    bins = table(layout, own, "influence_histogram.json")
    assert list(bins.columns) == ["low", "high", "selected", "not_selected"]
    positive = sum(influence > 0 for influence in influences)
    assert (bins["selected"].sum(), bins["not_selected"].sum()) == (positive, 25 - positive)
    assert (bins["selected"][bins["high"] <= 0].sum(), bins["not_selected"][bins["low"] >= 0].sum()) == (0, 0)


@pytest.mark.slow
def test_influence_that_was_not_measured_is_no_table(
    layout: Layout, make_trajectory: MAKE, capfd: pytest.CaptureFixture[str]
) -> None:
    select(layout, make_trajectory("p", [1.0, 0.0]), [None, None])
    run_id = record_stage(layout, "select@1", SELECTION)
    assert capfd.readouterr().err == ""
    client = store(layout)
    assert client.list_artifacts(children(client, run_id)["select@1"].info.run_id) == []


def other_trajectories(layout: Layout, make: MAKE) -> None:
    select(layout, make("p", [1.0, 0.0]), [1.0, -1.0])
    write_rewarded(layout.trajectories(1), [make("other", [1.0, 0.0])])


DAMAGES: dict[str, tuple[str, Callable[[Layout, MAKE], None], list[str]]] = {
    "run/plots/update@1.csv": (
        "update",
        lambda layout, _: write_text(layout.steps(1), "step,kl\n1\n"),
        ["steps of update@1, run/plots/update@1.csv, left out"],
    ),
    SELECTION: (
        "select",
        other_trajectories,
        ["influence of select@1 left out", "trajectories.jsonl (('p', 'p-0'))", "run graft stage select@1"],
    ),
    "run/rounds/1/tree.svg": ("search", lambda *_: None, ["tree.svg"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("out", DAMAGES)
def test_a_file_that_is_missing_or_broken_costs_no_number(
    layout: Layout, make_trajectory: MAKE, capfd: pytest.CaptureFixture[str], out: str
) -> None:
    stage, damage, warnings = DAMAGES[out]
    write_json(layout.metrics(stage, 1), {"number": 7})
    damage(layout, make_trajectory)
    run_id = record_stage(layout, f"{stage}@1", out)
    printed = capfd.readouterr().err
    for warning in warnings:
        assert warning in printed
    client = store(layout)
    assert children(client, run_id)[f"{stage}@1"].data.metrics["number"] == 7
    assert client.get_run(run_id).info.status == "FINISHED"
