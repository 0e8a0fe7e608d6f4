"""Laws of the problems that are open: simpler ones first."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import GraftError
from tasks.params.curriculum import Curriculum
from tasks.records import SearchOutcome
from tasks.search.open_problems import open_problems
from tests.support.stage_params import SHIPPED

OPERATIONS = {f"p{number}": 1 + number % 3 for number in range(12)}
ALL = list(OPERATIONS)


def params(order: str | None = "operations", **changes: Any) -> Curriculum:
    return SHIPPED.curriculum.model_copy(update={"order": order, **changes})


def solved(rates: dict[int, int], round: int = 1) -> list[SearchOutcome]:
    """Right samples of 8 of each problem, by its operations."""
    return [
        SearchOutcome(problem_id=name, round=round, samples=8, right=rates[count], signal=True)
        for name, count in OPERATIONS.items()
        if count in rates
    ]


def levels(outcomes: list[SearchOutcome], round: int = 2, **changes: Any) -> set[int]:
    return {OPERATIONS[name] for name in open_problems(OPERATIONS, outcomes, params(**changes), round)}


def test_as_shipped_all_are_open() -> None:
    assert open_problems(OPERATIONS, [], SHIPPED.curriculum, 1) == ALL


def test_harder_problems_open_level_by_level_with_success() -> None:
    assert levels([], 1) == {1}
    assert levels(solved({1: 4})) == {1}  # a half is not more than a half
    assert levels(solved({1: 5})) == {1, 2}
    assert levels(solved({1: 8, 2: 0})) == {1, 2}
    assert levels(solved({1: 8, 2: 1})) == {1, 2, 3}  # of all that is open
    assert levels(solved({1: 8, 2: 1}), threshold=0.9) == {1, 2}
    assert levels(solved({1: 8, 2: 8}) + solved({1: 2}, round=2), 3) == {1}  # unlearnt


@given(
    st.lists(st.integers(0, 8), min_size=12, max_size=12), st.floats(0, 1), st.sampled_from(["operations", "pass_rate"])
)
def test_what_is_open_is_no_harder_than_what_is_closed_and_more_success_closes_nothing(
    right: list[int], threshold: float, order: str
) -> None:
    def found(counts: list[int], limit: float) -> list[str]:
        outcomes = [
            SearchOutcome(problem_id=name, round=1, samples=8, right=count, signal=True)
            for name, count in zip(ALL, counts, strict=True)
        ]
        return open_problems(OPERATIONS, outcomes, params(order, threshold=limit), 2)

    opened = found(right, threshold)
    assert opened
    assert opened == [name for name in ALL if name in opened]
    ease = {name: -OPERATIONS[name] if order == "operations" else count for name, count in zip(ALL, right, strict=True)}
    assert all(ease[name] > ease[other] for name in opened for other in ALL if other not in opened)
    assert set(opened) >= set(found(right, min(1.0, threshold + 0.1)))
    if order == "operations":
        assert set(opened) <= set(found([min(8, count + 1) for count in right], threshold))


def test_by_pass_rate_all_are_measured_first_and_then_taken_from_the_easiest_on() -> None:
    assert open_problems(OPERATIONS, [], params("pass_rate"), 1) == ALL
    assert levels(solved({1: 2, 2: 8, 3: 4}), order="pass_rate") == {1, 2, 3}
    assert levels(solved({1: 0, 2: 8, 3: 0}), order="pass_rate", threshold=0.6) == {1, 2, 3}
    assert levels(solved({1: 0, 2: 6, 3: 2}), order="pass_rate", threshold=0.6) == {2, 3}
    assert levels(solved({1: 2, 2: 8}), order="pass_rate") == {2, 3}  # never searched: between them


def test_unknown_operations_are_refused_by_name() -> None:
    with pytest.raises(GraftError, match=r"curriculum\.order: operations, but problem 'q' does not say .* pass_rate"):
        open_problems({"q": None}, [], params(), 1)
    assert open_problems({"q": None}, [], params("pass_rate"), 1) == ["q"]
