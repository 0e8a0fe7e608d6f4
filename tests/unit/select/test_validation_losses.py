"""What each validation loss makes of a sample."""

import pytest

from tasks.objective.advantages import advantages_of
from tasks.params.fields import ValidationLoss
from tasks.select.losses import validation_coefficients

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
