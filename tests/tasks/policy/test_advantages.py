"""Laws of group-relative advantages."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.policy.advantages import group_advantages, has_signal

REWARDS = st.lists(st.none() | st.floats(-10, 10), max_size=12)


def test_the_seed_formula_uses_the_sample_standard_deviation() -> None:
    assert group_advantages([1, 1, 0]) == pytest.approx([0.577, 0.577, -1.155], abs=1e-3)


def test_a_failed_reward_leaves_mean_and_spread() -> None:
    advantages = group_advantages([1.5, 0.0, None, 1.25])
    assert advantages == pytest.approx([0.72578, -1.14050, 0.0, 0.41473], abs=1e-5)  # as TRL 1.16 gives


@pytest.mark.parametrize(
    "rewards", [[2.3] * 12, [0.1 + 0.2, 0.3, 0.3], [0.0, 0.0], [1.0, None], [None, None], [5.0], []]
)
def test_without_a_spread_the_advantage_is_exactly_zero(rewards: list[float | None]) -> None:
    assert group_advantages(rewards) == [0.0] * len(rewards)


@given(REWARDS)
def test_advantages_sum_to_zero_and_keep_the_order_of_rewards(rewards: list[float | None]) -> None:
    advantages = group_advantages(rewards)
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
