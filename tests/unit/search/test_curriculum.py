"""Laws of the problems that a round searches, their order and their waves."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.params.curriculum import Curriculum
from tasks.records import SearchOutcome
from tasks.search.curriculum import candidates, wave_size
from tests.support.stage_params import SHIPPED

NAMES = [f"p{number}" for number in range(400)]


def params(**changes: float) -> Curriculum:
    return SHIPPED.curriculum.model_copy(update=changes)


def outcome(name: str, right: int, samples: int = 8, round: int = 1) -> SearchOutcome:
    return SearchOutcome(problem_id=name, round=round, samples=samples, right=right, signal=0 < right < samples)


def test_who_is_searched_does_not_depend_on_the_order_of_files_or_on_other_problems() -> None:
    mixed = [outcome(name, place % 9) for place, name in enumerate(NAMES)]
    own = params(problems=150)
    found = candidates(NAMES, mixed, own, 3, 2)
    shuffled, names = Random(0).sample(mixed, len(mixed)), Random(1).sample(NAMES, len(NAMES))
    assert candidates(names, shuffled, own, 3, 2) == found
    all_of_them = candidates(NAMES, mixed, params(), 3, 2)
    half = candidates(NAMES[:200], mixed, params(), 3, 2)
    assert half == [name for name in all_of_them if name in NAMES[:200]]
    assert all_of_them[:150] == found


def test_seed_and_round_change_who_is_searched() -> None:
    orders = [candidates(NAMES, [], params(), seed, round) for seed, round in ((0, 1), (1, 1), (0, 2))]
    assert len({tuple(order) for order in orders}) == 3


def test_the_most_open_outcomes_come_first_where_much_is_known() -> None:
    rates = {name: place / 399 for place, name in enumerate(NAMES)}
    known = [outcome(name, round(1e6 * rate), 1_000_000) for name, rate in rates.items()]
    order = candidates(NAMES, known, params(discount=1.0), 0, 2)
    distance = [abs(rates[name] - 0.5) for name in order]
    assert all(one <= other + 0.01 for one, other in pairwise(distance))


def test_the_discount_forgets_what_was_known() -> None:
    """Half of the problems were right half of the time: with discount 0 they come no sooner than others."""
    known = [outcome(name, 4 if place % 2 else 0) for place, name in enumerate(NAMES)]

    def share_of_open(discount: float) -> float:
        first = candidates(NAMES, known, params(discount=discount, problems=200), 0, 2)
        return sum(NAMES.index(name) % 2 for name in first) / 200

    assert share_of_open(1.0) > share_of_open(0.5) > 0.6
    assert share_of_open(0.0) == pytest.approx(0.5, abs=0.1)


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 40))
def test_waves_end_with_enough_signals_or_no_candidates(signals: list[bool], groups: int) -> None:
    done, waves = 0, 0
    while size := wave_size(groups, done, sum(signals[:done]), len(signals) - done):
        assert 0 < size <= min(groups, len(signals) - done)
        assert sum(signals[:done]) < groups
        done, waves = done + size, waves + 1
    assert done == len(signals) or sum(signals[:done]) >= groups
    assert waves <= len(signals)


def test_a_wave_is_as_large_as_the_share_with_a_signal_asks_for() -> None:
    assert wave_size(30, 0, 0, 100) == 30
    assert wave_size(30, 30, 20, 70) == 15  # 10 are missing, of two in three
    assert wave_size(30, 30, 20, 7) == 7
    assert wave_size(30, 30, 0, 70) == 30
    assert wave_size(30, 45, 30, 55) == 0
    assert wave_size(None, 0, 0, 100) == 100
    assert wave_size(None, 100, 3, 0) == 0
