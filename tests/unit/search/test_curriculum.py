"""Laws of the problems that a round searches, their order and their waves."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.params.curriculum import Curriculum
from tasks.records import AskedProblem, Problem, SearchOutcome
from tasks.search.curriculum import candidates, wave_size
from tasks.search.shard import SearchShard
from tasks.search.waves import NumberedShard, search_waves
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


PROBLEMS = [Problem(problem_id=name, question="?", answer=1, source="test") for name in NAMES[:20]]
HELD_OUT = [Problem(problem_id=f"v{number}", question="?", answer=1, source="test") for number in range(3)]
SPLIT = [*(("train", problem) for problem in PROBLEMS), *(("validation", problem) for problem in HELD_OUT)]


def without_policy(shard: NumberedShard) -> SearchShard:
    """As if each even problem had a signal; `solved` has the number of the shard."""
    own = [outcome(p.problem_id, 4 * (int(p.problem_id[1:]) % 2 == 0)) for split, p in shard[1] if split == "train"]
    asked = [AskedProblem(split=split, problem=p, prompt="?", prompt_tokens=[5]) for split, p in shard[1]]
    return SearchShard(asked, [str(shard[0])], [], [], own, None, {}, {}, all_vary=False)


def names_of(shard: SearchShard) -> list[str]:
    return [asked.problem_id for asked in shard.asked]


@pytest.mark.parametrize("shard_size", [1, 3, 100])
def test_waves_search_a_prefix_of_the_order_once_and_validation_first(shard_size: int) -> None:
    order = Random(5).sample(NAMES[:20], 20)
    found = list(search_waves(without_policy, SPLIT, order, 6, shard_size))
    other = [name for result in search_waves(without_policy, SPLIT, order, 6, 7) for name in names_of(result)]
    names = [name for result in found for name in names_of(result)]
    train = [name for name in names if name[0] == "p"]
    assert sorted(train) == sorted(order[: len(train)])
    assert len(set(names)) == len(names)
    assert [result.solved for result in found] == [[str(number)] for number in range(len(found))]
    first = sorted(order[:6], key=NAMES.index)
    assert names[:9] == [*first, *(p.problem_id for p in HELD_OUT)]
    assert 6 <= sum(int(name[1:]) % 2 == 0 for name in train) <= 11
    assert set(other) == set(names), "who is searched does not depend on the shards"


def test_without_groups_all_are_searched_in_the_order_of_the_file() -> None:
    (found,) = search_waves(without_policy, SPLIT, Random(5).sample(NAMES[:20], 20), None, 100)
    assert names_of(found) == [problem.problem_id for _, problem in SPLIT]
    some = search_waves(without_policy, SPLIT, ["p9", "p3"], None, 100)
    assert [names_of(result) for result in some] == [["p3", "p9", "v0", "v1", "v2"]]
