"""Which samples are kept."""

from hypothesis import given
from hypothesis import strategies as st

from tasks.influence.selection import select, selection_numbers

ROWS = st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 0.5]), st.floats(-1, 1)), max_size=10)


def test_positive_keeps_what_lowers_the_validation_loss() -> None:
    assert select("positive", [1.0, -1.0, 1.0, 1.0], [0.1, 0.2, -0.1, 0.0], judged=True) == [True, True, False, False]


def test_none_keeps_all_that_have_a_signal() -> None:
    assert select("none", [1.0, 0.0, -1.0], [-0.1, 0.0, 0.2], judged=True) == [True, False, True]


def test_without_a_validation_signal_all_that_have_one_are_kept() -> None:
    assert select("positive", [1.0, 0.0, -1.0], [0.0, 0.0, 0.0], judged=False) == [True, False, True]


def test_what_was_not_measured_has_no_mean() -> None:
    assert select("none", [1.0, 0.0], [None, None], judged=False) == [True, False]
    assert "mean_influence" not in selection_numbers([1.0, 0.0], [None, None], [True, False])


@given(ROWS)
def test_a_sample_without_signal_is_never_kept(rows: list[tuple[float, float]]) -> None:
    advantages, influences = [a for a, _ in rows], [i for _, i in rows]
    for rule in ("positive", "none"):
        for judged in (True, False):
            kept = select(rule, advantages, influences, judged)
            assert not any(keep for keep, advantage in zip(kept, advantages, strict=True) if advantage == 0)


def test_shares_are_of_the_samples_with_a_signal() -> None:
    numbers = selection_numbers(
        [1.0, 1.0, -1.0, 0.0, 0.0], [0.3, -0.1, 0.1, 0.0, 0.0], [True, False, True, False, False]
    )
    assert numbers == {
        "samples": 5,
        "no_signal_share": 0.4,
        "selected": 2,
        "selected_share": 2 / 3,
        "selected_share_good": 0.5,
        "selected_share_bad": 1.0,
        "mean_influence": 0.3 / 3,
    }
