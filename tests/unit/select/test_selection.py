"""Which samples are kept."""

import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.params.fields import Selection
from tasks.select.selection import select

RULES = get_args(Selection)
ROWS = st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 0.5]), st.floats(-1, 1)), max_size=12)
FRACTIONS = st.floats(0.01, 1)

ADVANTAGES = [1.0, -1.0, 1.0, 1.0, 0.0, -1.0]
INFLUENCES = [0.1, 0.3, -0.1, 0.0, 0.0, -0.4]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("positive", [1, 1, 0, 0, 0, 0]),
        ("drop_worst_negative", [1, 1, 1, 1, 0, 0]),
        ("top_fraction", [1, 1, 0, 1, 0, 0]),
        ("bottom_fraction", [0, 0, 1, 1, 0, 1]),
        ("random", [1, 0, 1, 0, 0, 1]),
        ("none", [1, 1, 1, 1, 0, 1]),
    ],
)
def test_each_rule_keeps_what_it_says(rule: Selection, expected: list[int]) -> None:
    found = select(rule, ADVANTAGES, INFLUENCES, fraction=0.5, lots=[1, 9, 2, 8, 0, 3])
    assert found == expected


def test_none_and_random_need_no_influence() -> None:
    assert select("none", [1.0, 0.0], [None, None]) == [1, 0]
    assert select("random", [1.0, 1.0], [None, None], fraction=0.5, lots=[5, 4]) == [0, 1]


@given(ROWS, FRACTIONS)
def test_a_sample_without_signal_is_never_kept(rows: list[tuple[float, float]], fraction: float) -> None:
    advantages, influences = [a for a, _ in rows], [i for _, i in rows]
    for rule in RULES:
        kept = select(rule, advantages, influences, fraction, range(len(rows)))
        assert not any(kept for kept, advantage in zip(kept, advantages, strict=True) if advantage == 0)


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
