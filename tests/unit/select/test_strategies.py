"""Strategies of selection: what each keeps of measured samples."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.model.sample import Sample
from tasks.params.fields import SelectionRule
from tasks.select.strategies import STRATEGIES, ScoredSamples

numbers = st.floats(-1, 1, allow_nan=False)
samples = st.lists(
    st.tuples(numbers, st.booleans(), st.integers(0, 10**9)), min_size=1, max_size=30, unique_by=lambda s: s[2]
)


def measured(rows: list[tuple[float, bool, int]], share: float = 0.5, threshold: float = 0.0) -> ScoredSamples:
    influences, has_signal, seeds = zip(*rows, strict=True)
    own = [Sample("p", place, (1,), (2,), (), float(signal)) for place, signal in enumerate(has_signal)]
    return ScoredSamples(own, influences, has_signal, seeds, threshold, share)


@pytest.mark.parametrize("name", STRATEGIES)
@given(rows=samples, share=st.floats(0.01, 1))
def test_only_samples_with_a_signal_are_kept_in_whatever_order(
    name: SelectionRule, rows: list[tuple[float, bool, int]], share: float
) -> None:
    kept = STRATEGIES[name](measured(rows, share))
    assert not any(k and not has_signal for k, (_, has_signal, _) in zip(kept, rows, strict=True))
    again = STRATEGIES[name](measured(rows[::-1], share))
    assert again[::-1] == kept
    if name != "positive":
        assert sum(kept) == round(share * sum(has_signal for _, has_signal, _ in rows))


@given(rows=samples, share=st.floats(0.01, 1))
def test_top_and_bottom_keep_the_ends(rows: list[tuple[float, bool, int]], share: float) -> None:
    own = [
        (x, k, b)
        for (x, s, _), k, b in zip(
            rows, *(STRATEGIES[n](measured(rows, share)) for n in ("top", "bottom")), strict=True
        )
        if s
    ]
    for place, sign in ((1, 1), (2, -1)):
        kept, left = ([sign * row[0] for row in own if bool(row[place]) == flag] for flag in (True, False))
        assert not kept or not left or min(kept) >= max(left)


def test_positive_keeps_what_is_above_the_threshold() -> None:
    rows = [(0.2, True, 1), (0.0, True, 2), (-0.1, True, 3), (-0.5, True, 4), (0.3, False, 5)]
    assert STRATEGIES["positive"](measured(rows)) == [True, False, False, False, False]
    assert STRATEGIES["positive"](measured(rows, threshold=-0.2)) == [True, True, True, False, False]
    assert STRATEGIES["positive"](measured(rows, threshold=float("-inf"))) == [True, True, True, True, False]


def test_a_random_share_has_nothing_to_do_with_influence() -> None:
    rows = [(place / 100, True, place * 7919 % 101) for place in range(100)]
    other = [(-x, has_signal, seed) for x, has_signal, seed in rows]
    assert STRATEGIES["random"](measured(rows)) == STRATEGIES["random"](measured(other))
