"""Laws of group-relative advantages."""

from itertools import pairwise
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.objective.advantages import EPSILON, advantages_of, has_signal, single_reward_groups
from tasks.params.fields import Baseline

REWARDS = st.lists(st.none() | st.floats(-10, 10), max_size=12)
RULES: list[Baseline] = ["group", "batch", "none", "leave_one_out", "global"]


def group_advantages(rewards: list[float | None]) -> list[float]:
    return advantages_of("group", [rewards])[0]


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([1, 1, 0], [0.577, 0.577, -1.155]),  # ddof 1; with 0 it would be [0.707, 0.707, -1.414]
        ([1.5, 0.0, None, 1.25], [0.72578, -1.14050, 0.0, 0.41473]),  # a failed reward leaves both, as in TRL 1.16
    ],
)
def test_an_advantage_is_the_distance_from_the_mean_in_sample_deviations(
    rewards: list[float | None], expected: list[float]
) -> None:
    assert group_advantages(rewards) == pytest.approx(expected, abs=1e-3 if None not in rewards else 1e-5)


def test_the_rules_by_hand() -> None:
    groups = [[1.0, 1.0, 0.0], [2.0, 4.0]]
    batch = stdev([1, 1, 0, 2, 4]) + EPSILON
    assert advantages_of("group", groups) == [group_advantages(rewards) for rewards in groups]
    assert advantages_of("none", groups) == [pytest.approx([1 / 3, 1 / 3, -2 / 3]), [-1.0, 1.0]]
    assert advantages_of("leave_one_out", groups) == [pytest.approx([0.5, 0.5, -1]), [-2.0, 2.0]]
    centred = [[1 / 3, 1 / 3, -2 / 3], [-1, 1]]
    assert advantages_of("batch", groups) == [pytest.approx([x / batch for x in group]) for group in centred]
    assert advantages_of("global", groups) == [pytest.approx([(r - 1.6) / batch for r in group]) for group in groups]


@given(st.lists(REWARDS, min_size=1, max_size=5))
def test_the_groups_do_not_matter_to_the_advantages_of_the_batch(groups: list[list[float | None]]) -> None:
    """`global` is `group` with the whole batch as the group."""
    one = [r for rewards in groups for r in rewards]
    assert [a for own in advantages_of("global", groups) for a in own] == advantages_of("group", [one])[0]


def test_a_group_of_equal_rewards_is_compared_with_the_batch_by_global_alone() -> None:
    solved, failed = advantages_of("global", [[1.0, 1.0, None], [0.0, 0.0]])
    assert solved == [pytest.approx(0.866, abs=1e-3)] * 2 + [0.0]
    assert failed == [pytest.approx(-0.866, abs=1e-3)] * 2
    assert advantages_of("global", [[0.5, 0.5], [0.5]]) == [[0.0, 0.0], [0.0]]


def test_a_group_with_one_known_reward_is_compared_with_the_batch() -> None:
    groups = [[1.0, 0.0], [None, 0.75], [None, None]]
    known, std = [1.0, 0.0, 0.75], stdev([1.0, 0.0, 0.75]) + EPSILON
    above = 0.75 - fmean(known)
    assert single_reward_groups(groups) == 1
    for rule, expected in zip(RULES, [above / std, above / std, above, 0.75 - 0.5, above / std], strict=True):
        assert advantages_of(rule, groups)[1:] == [[0.0, pytest.approx(expected)], [0.0, 0.0]]


def test_groups_of_one_learn_from_the_batch() -> None:
    assert advantages_of("none", [[1.0], [0.0], [0.5]]) == [[0.5], [-0.5], [0.0]]


@pytest.mark.parametrize("rule", RULES[:-1])
def test_equal_rewards_have_advantage_exactly_zero_next_to_others(rule: Baseline) -> None:
    equal, _ = advantages_of(rule, [[0.1 + 0.2, 0.3, 0.3, None], [0.0, 1.0]])
    assert equal == [0.0] * 4


@given(st.sampled_from(RULES), REWARDS)
def test_advantages_sum_to_zero_and_keep_the_order_of_rewards(rule: Baseline, rewards: list[float | None]) -> None:
    (advantages,) = advantages_of(rule, [rewards])
    assert sum(advantages) == pytest.approx(0, abs=1e-6)
    pairs = sorted((r, a) for r, a in zip(rewards, advantages, strict=True) if r is not None)
    assert all(a <= b for (_, a), (_, b) in pairwise(pairs))


@given(REWARDS, st.floats(-5, 5))
def test_a_constant_added_to_all_rewards_changes_nothing(rewards: list[float | None], constant: float) -> None:
    shifted = [None if r is None else r + constant for r in rewards]
    if has_signal(rewards) == has_signal(shifted):
        assert group_advantages(shifted) == pytest.approx(group_advantages(rewards), abs=1e-3)


@given(REWARDS)
def test_the_order_of_members_does_not_matter(rewards: list[float | None]) -> None:
    assert group_advantages(rewards[::-1]) == group_advantages(rewards)[::-1]
