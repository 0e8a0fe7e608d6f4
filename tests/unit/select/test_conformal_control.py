"""Which training samples fare worse than samples whose rewards are right."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.select.influence import FALSE_DISCOVERY_RATE, rejection_threshold

TRUSTED = [float(x) for x in range(100)]


@pytest.mark.parametrize(
    ("training", "trusted", "line"),
    [
        ([-3.0, -1.0, -2.0], TRUSTED, -1.0),
        ([-3.0, 50.0, 51.0], TRUSTED, -3.0),  # 1 of 101 at or below it, three were tried: 3/101 is little enough
        ([9.0, 70.0, 80.0, 90.0], TRUSTED, None),  # 11 of 101 are; of four that is no wonder
        ([-1.0, -2.0, 9.0, 99.0], TRUSTED, 9.0),  # three of four at or below it, expected were 4 · 11/101 < 3/3
        (TRUSTED, TRUSTED, None),
        ([-1.0] * 9, [0.0], None),  # one alone proves nothing: it is the lowest of two half of the time
        ([-1.0], [], None),
        ([], TRUSTED, None),
    ],
)
def test_the_fault_line_lies_where_as_many_are_expected_by_chance(
    training: list[float], trusted: list[float], line: float | None
) -> None:
    assert rejection_threshold(training, trusted) == line


FLOATS = st.lists(st.floats(-1, 1), min_size=1, max_size=30)


@given(FLOATS, st.lists(st.floats(-1, 1), max_size=30))
def test_it_is_benjamini_and_hochbergs(training: list[float], trusted: list[float]) -> None:
    """Written out: the highest x at or below which so many lie that the expected number of right ones is a share."""
    found = []
    for x in training:
        p = (1 + sum(other <= x for other in trusted)) / (1 + len(trusted))
        if p * len(training) <= FALSE_DISCOVERY_RATE * sum(other <= x for other in training) * (1 + 1e-12):
            found.append(x)
    assert rejection_threshold(training, trusted) == (max(found, default=None) if trusted else None)
