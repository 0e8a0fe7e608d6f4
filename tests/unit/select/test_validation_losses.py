"""What each validation loss makes of a sample."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.objective.advantages import advantages_of
from tasks.params.fields import ValidationLoss
from tasks.select.losses import keep_top_k, validation_coefficients

REWARDS = [[1.0, 0.0, None, 0.5], [0.0, 0.0], [1.0, 1.0]]
ADVANTAGES = advantages_of("none", REWARDS)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("seqloss_lastadv", [[0.5, -0.5, 0, 0], [0, 0], [0, 0]]),
        ("seqloss_reward", [[1, 0, 0, 0.5], [0, 0], [1, 1]]),
        ("contrastive", [[1, -1, 0, 0], [0, 0], [0, 0]]),
    ],
)
def test_the_losses_are_what_their_table_says(loss: ValidationLoss, expected: list[list[float]]) -> None:
    found = validation_coefficients(loss, REWARDS, ADVANTAGES)
    assert [list(map(float, group)) for group in expected] == [pytest.approx(group) for group in found]


@given(
    st.lists(st.lists(st.none() | st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=4), min_size=1, max_size=4),
    st.integers(1, 20),
)
def test_the_top_k_are_kept_and_no_other_is_better(rewards: list[list[float | None]], top_k: int) -> None:
    ones = [[1.0] * len(group) for group in rewards]
    flat = [reward for group in rewards for reward in group]
    kept = [weight > 0 for group in keep_top_k(ones, rewards, top_k) for weight in group]
    known = [(reward, keep) for reward, keep in zip(flat, kept, strict=True) if reward is not None]
    assert sum(kept) == sum(keep for _, keep in known) == min(top_k, len(known))
    out = max((reward for reward, keep in known if not keep), default=0.0)
    assert all(reward >= out for reward, keep in known if keep)
    lowered = [[None if reward is None else -reward for reward in group] for group in rewards]
    assert keep_top_k(ones, rewards, -top_k) == keep_top_k(ones, lowered, top_k)  # the lowest
