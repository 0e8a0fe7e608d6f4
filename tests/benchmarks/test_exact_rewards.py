"""benchmarks/influence_selection/exact_rewards.py: cost until a score, from curves of runs."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.influence_selection.exact_rewards import (
    INFLUENCE,
    METHODS,
    SHIPPED,
    Curve,
    costs,
    exact_speedup,
    reached,
    read_curves,
)
from tasks.params.file import overridden

ROOT = Path(__file__).parents[2]


def curve(method: str, seed: int, seconds: list[float], scores: list[float]) -> Curve:
    return Curve(method, seed, seconds, [10 * cost for cost in seconds], scores, "2026-11-25", "x86_64, 2 cores")


def test_a_score_between_two_rounds_is_interpolated() -> None:
    assert reached([0.2, 0.4], [10, 30], 0.3) == pytest.approx(20)
    assert reached([0.2, 0.4], [10, 30], 0.2) == 10
    assert reached([0.2, 0.4], [10, 30], 0.1) == 10
    assert reached([0.2, 0.4], [10, 30], 0.41) is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.floats(0, 1), st.floats(0, 1))
def test_a_higher_score_is_never_reached_earlier(scores: list[float], one: float, other: float) -> None:
    costs = [float(number + 1) for number in range(len(scores))]
    low, high = (reached(scores, costs, goal) for goal in sorted((one, other)))
    if high is not None:
        assert low is not None
        assert low <= high <= costs[-1]


def test_the_speedup_is_the_mean_over_the_seeds_and_needs_every_run(tmp_path: Path) -> None:
    curves = [
        curve(SHIPPED, 0, [10, 20], [0.3, 0.5]),
        curve(INFLUENCE, 0, [20, 40], [0.3, 0.5]),
        curve(SHIPPED, 1, [10, 20], [0.2, 0.6]),
        curve(INFLUENCE, 1, [15, 30, 60], [0.2, 0.4, 0.8]),
    ]
    path = tmp_path / "curves.jsonl"
    path.write_text("".join(json.dumps(asdict(one)) + "\n" for one in curves))
    known = read_curves(path)
    assert costs(known, INFLUENCE) == [(40, 400), (45, 450)]
    assert exact_speedup(known) == pytest.approx((40 / 20 + 45 / 20) / 2)
    known[1][INFLUENCE] = curve(INFLUENCE, 1, [15, 30], [0.2, 0.5])
    with pytest.raises(LookupError, match="not every run"):
        exact_speedup(known)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_of_valid_params(method: str) -> None:
    path = ROOT / "params.yaml"
    assert bool(overridden(path, path.read_text(), METHODS[method])[2]) == (method != SHIPPED)
