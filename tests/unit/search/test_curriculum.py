"""Laws of the problems that a round searches, their order and their waves."""

from collections.abc import Iterable
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


DEAD = [outcome(name, 0) for name in NAMES]


def searched(outcomes: Iterable[SearchOutcome], seed: int = 0, round: int = 2, **changes: float) -> set[str]:
    return set(candidates(NAMES, outcomes, params(**changes), seed, round).order)


def test_as_shipped_every_problem_is_searched() -> None:
    found = candidates(NAMES, DEAD, SHIPPED.curriculum, 0, 2)
    assert (sorted(found.order), found.skipped) == (sorted(NAMES), 0)


@pytest.mark.parametrize("times", [1, 2])
def test_a_problem_without_signal_is_searched_with_the_power_of_exploration(times: int) -> None:
    without = [outcome(name, 0, round=round) for name in NAMES for round in range(1, times + 1)]
    counts = [len(searched(without, seed, times + 1, exploration=0.6)) for seed in range(20)]
    expected = 0.6**times
    spread = (expected * (1 - expected) / (20 * len(NAMES))) ** 0.5
    assert sum(counts) / (20 * len(NAMES)) == pytest.approx(expected, abs=4 * spread)


def test_only_searches_without_signal_are_skipped_those_that_were_solved_always_too() -> None:
    mixed = [outcome(name, [0, 3, 8][place % 3]) for place, name in enumerate(NAMES)]
    found = searched(mixed, exploration=0.01)
    assert {name for place, name in enumerate(NAMES) if place % 3 == 1} <= found
    assert len(found) < len(NAMES) / 2
    found = searched(mixed[:200], exploration=0.01)
    assert set(NAMES[200:]) <= found, "a problem that was not searched yet is not skipped"


def test_more_exploration_skips_a_subset() -> None:
    kept = [searched(DEAD, exploration=exploration) for exploration in (0.2, 0.5, 0.8, 1.0)]
    assert kept[0] < kept[1] < kept[2] < kept[3] == set(NAMES)


def test_if_all_would_be_skipped_none_is() -> None:
    found = candidates(NAMES[:3], DEAD[:3], params(exploration=1e-9), 0, 2)
    assert (sorted(found.order), found.skipped) == (NAMES[:3], 0)


def test_who_is_searched_does_not_depend_on_the_order_of_files_or_on_other_problems() -> None:
    mixed = [outcome(name, place % 9) for place, name in enumerate(NAMES)]
    own = params(exploration=0.5, problems=150)
    found = candidates(NAMES, mixed, own, 3, 2)
    shuffled, names = Random(0).sample(mixed, len(mixed)), Random(1).sample(NAMES, len(NAMES))
    assert candidates(names, shuffled, own, 3, 2) == found
    all_of_them = candidates(NAMES, mixed, params(exploration=0.5), 3, 2).order
    half = candidates(NAMES[:200], mixed, params(exploration=0.5), 3, 2).order
    assert half == [name for name in all_of_them if name in NAMES[:200]]
    assert all_of_them[:150] == found.order


def test_seed_and_round_change_who_is_searched() -> None:
    draws = [searched(DEAD, seed, round, exploration=0.5) for seed, round in ((0, 2), (1, 2), (0, 3))]
    assert len({frozenset(draw) for draw in draws}) == 3
    orders = [candidates(NAMES, [], params(), seed, round).order for seed, round in ((0, 1), (1, 1), (0, 2))]
    assert len({tuple(order) for order in orders}) == 3


def test_the_most_open_outcomes_come_first_where_much_is_known() -> None:
    rates = {name: place / 399 for place, name in enumerate(NAMES)}
    known = [outcome(name, round(1e6 * rate), 1_000_000) for name, rate in rates.items()]
    order = candidates(NAMES, known, params(discount=1.0), 0, 2).order
    distance = [abs(rates[name] - 0.5) for name in order]
    assert all(one <= other + 0.01 for one, other in pairwise(distance))


def test_the_discount_forgets_what_was_known() -> None:
    """Half of the problems were right half of the time: with discount 0 they come no sooner than others."""
    known = [outcome(name, 4 if place % 2 else 0) for place, name in enumerate(NAMES)]

    def share_of_open(discount: float) -> float:
        first = candidates(NAMES, known, params(discount=discount, problems=200), 0, 2).order
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
