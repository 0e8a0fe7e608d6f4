"""Which samples are kept, and at what weight."""

import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.influence.selection import select
from tasks.params.fields import Selection

RULES = get_args(Selection)
ROWS = st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 0.5]), st.floats(-1, 1)), max_size=12)
FRACTIONS = st.floats(0.01, 1)

ADVANTAGES = [1.0, -1.0, 1.0, 1.0, 0.0, -1.0]
INFLUENCES = [0.1, 0.3, -0.1, 0.0, 0.0, -0.4]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("positive", [1, 1, 0, 0, 0, 0]),
        ("reweight", [0.5, 1.5, 0, 0, 0, 0]),
        ("drop_worst_negative", [1, 1, 1, 1, 0, 0]),
        ("top_fraction", [1, 1, 0, 1, 0, 0]),
        ("bottom_fraction", [0, 0, 1, 1, 0, 1]),
        ("random", [1, 0, 1, 0, 0, 1]),
        ("none", [1, 1, 1, 1, 0, 1]),
    ],
)
def test_each_rule_keeps_what_it_says(rule: Selection, expected: list[float]) -> None:
    found = select(rule, ADVANTAGES, INFLUENCES, fraction=0.5, lots=[1, 9, 2, 8, 0, 3])
    assert found == pytest.approx(expected)


def test_none_and_random_need_no_influence() -> None:
    assert select("none", [1.0, 0.0], [None, None]) == [1, 0]
    assert select("random", [1.0, 1.0], [None, None], fraction=0.5, lots=[5, 4]) == [0, 1]


def test_a_minimum_is_kept_in_any_case() -> None:
    assert select("positive", ADVANTAGES, INFLUENCES, minimum=4) == [1, 1, 1, 1, 0, 0]
    assert select("reweight", ADVANTAGES, INFLUENCES, minimum=3) == pytest.approx([0.5, 1.5, 0, 0.5, 0, 0])
    assert select("positive", [1.0, 0.0], [-1.0, 0.0], minimum=9) == [1, 0]


@given(ROWS, FRACTIONS, st.integers(0, 20))
def test_a_sample_without_signal_is_never_kept(rows: list[tuple[float, float]], fraction: float, minimum: int) -> None:
    advantages, influences = [a for a, _ in rows], [i for _, i in rows]
    for rule in RULES:
        kept = select(rule, advantages, influences, fraction, minimum, range(len(rows)))
        assert all((weight == 0) >= (advantage == 0) for weight, advantage in zip(kept, advantages, strict=True))
        assert all(weight >= 0 for weight in kept)
        assert sum(weight > 0 for weight in kept) >= min(minimum, sum(a != 0 for a in advantages))


@given(ROWS, FRACTIONS)
def test_fractions_are_of_the_samples_with_a_signal(rows: list[tuple[float, float]], fraction: float) -> None:
    advantages, influences = [a for a, _ in rows], [i for _, i in rows]
    signal = sum(a != 0 for a in advantages)
    for rule in ("top_fraction", "bottom_fraction", "random"):
        kept = select(rule, advantages, influences, fraction, lots=range(len(rows)))
        assert sum(kept) == math.ceil(fraction * signal)
    harmful = sum(a != 0 and i < 0 for a, i in rows)
    kept = select("drop_worst_negative", advantages, influences, fraction)
    assert sum(kept) == signal - math.ceil(fraction * harmful)


@given(ROWS)
def test_new_weights_leave_the_mean_weight_at_1(rows: list[tuple[float, float]]) -> None:
    kept = [w for w in select("reweight", [a for a, _ in rows], [i for _, i in rows]) if w]
    assert not kept or sum(kept) / len(kept) == pytest.approx(1)
