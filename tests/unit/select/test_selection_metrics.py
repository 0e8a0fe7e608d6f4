"""What a selection did, in numbers."""

import pytest

from tasks.records.selection import Selected
from tasks.select.metrics import selection_metrics


def line(advantage: float, influence: float | None, selected: bool) -> Selected:
    return Selected(
        problem_id="p",
        member=0,
        workflow_id="w",
        advantage=advantage,
        influence=influence,
        gradient_norm=None if influence is None else abs(advantage),
        selected=selected,
    )


def test_shares_are_of_the_samples_with_a_signal() -> None:
    lines = [line(1, 0.3, True), line(1, -0.1, False), line(-1, 0.1, True), line(0, 0, False)]
    numbers = selection_metrics(lines, [1.0, 0.5, 0.0, 1.0], ["sample", "tree", "tree", "coldstart"])
    assert numbers == {
        "samples": 4,
        "no_signal_share": 0.25,
        "selected": 2,
        "selected_share": 2 / 3,
        "selected_share_good": 0.5,
        "selected_share_bad": 1.0,
        "selected_share_full": 1.0,
        "selected_share_none": 1.0,
        "selected_share_some": 0.0,
        "selected_share_sample": 1.0,
        "selected_share_tree": 0.5,
        "selected_share_coldstart": 0.0,
        "measured": 3,
        "influence_mean": pytest.approx(0.1),
        "influence_std": pytest.approx(0.2),
        "influence_min": -0.1,
        "influence_max": 0.3,
        "influence_positive_share": 2 / 3,
        "influence_p10": pytest.approx(-0.06),
        "influence_p50": pytest.approx(0.1),
        "influence_p90": pytest.approx(0.26),
        "gradient_norm_mean": 1.0,
    }


def test_what_was_not_measured_has_no_numbers() -> None:
    numbers = selection_metrics([line(1.0, None, True), line(0.0, None, False)], [1.0, None], ["sample"] * 2)
    assert numbers["selected"] == 1
    assert not any("influence" in name or "norm" in name for name in numbers)


def test_a_sample_without_a_gradient_is_in_none_of_the_numbers_of_influence() -> None:
    measured = [line(1, 0.3, True), line(1, 0.1, True)]
    unmoved = line(-1, 0.0, False).model_copy(update={"gradient_norm": 0.0})  # update.negative_weight is 0
    with_it, without = (
        selection_metrics(lines, [1.0] * len(lines), ["sample"] * len(lines))
        for lines in ([*measured, unmoved], measured)
    )
    names = [name for name in without if "influence" in name or "norm" in name]
    assert [with_it[name] for name in names] == [without[name] for name in names]
    assert with_it["influence_positive_share"] == 1
    assert selection_metrics([measured[0]], [1.0], ["sample"])["influence_std"] == 0


def test_of_nothing_every_share_is_0() -> None:
    assert set(selection_metrics([], [], []).values()) == {0}
