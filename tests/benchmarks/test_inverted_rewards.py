"""The rewards that the benchmark of the audit inverts."""

import pytest

from tasks.records.programs import Result
from tests.support.groups import make_group, with_rewards
from tests.support.inverted_rewards import inverted

CODES = [f"return {number // 2}" for number in range(2000)]


def test_equal_completions_are_inverted_together_and_as_many_as_asked() -> None:
    group = make_group(CODES, [Result(status="ok", value=1)] * len(CODES))
    right = [float(number % 3 == 0) for number in range(1000)]
    for share in (0, 10, 30):
        (own,) = inverted([with_rewards(group, [right[place // 2] for place in range(len(CODES))])], share, 1, 2)
        first, second = ([record.reward for record in own.rewards[side::2]] for side in (0, 1))
        assert first == second
        wrong = sum(reward != truth for reward, truth in zip(first, right, strict=True))
        assert wrong / len(right) == pytest.approx(share / 100, abs=0.04)


def test_a_failed_reward_stays_failed() -> None:
    group = make_group(CODES[:2], [Result(status="ok", value=1)] * 2)
    (own,) = inverted([with_rewards(group, [None, None])], 100)
    assert [record.reward for record in own.rewards] == [None, None]
