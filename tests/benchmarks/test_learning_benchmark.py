"""The figures of benchmarks.learning."""

import pytest

from benchmarks.learning import LearningRun, figures

pytestmark = pytest.mark.nightly


def run(greedy: float, composition: float | None, seconds: float) -> LearningRun:
    """From 0.5 greedy and 0.2 on new compositions."""
    new = {} if composition is None else {"pass_at_1_greedy_new_composition": composition}
    old = {} if composition is None else {"pass_at_1_greedy_new_composition": 0.2}
    return LearningRun({"pass_at_1_greedy": 0.5, **old}, {"pass_at_1_greedy": greedy, **new}, seconds)


def test_gains_are_means_the_worst_is_greedy_and_the_time_is_the_median() -> None:
    found = figures([run(0.75, 0.5, 100.0), run(0.25, 0.25, 400.0), run(1.0, 0.5, 200.0)])
    assert found["worst_seed_gain"] == -0.25
    assert found["seconds_median"] == 200.0
    assert (found["greedy_before"], found["greedy_after"], found["greedy_gain"]) == (0.5, 0.6667, 0.1667)
    assert found["new_composition_gain"] == 0.2167


def test_problems_without_new_compositions_have_no_such_figure() -> None:
    assert "new_composition_gain" not in figures([run(0.75, None, 1.0)])
