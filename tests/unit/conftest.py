"""The fixtures `policy` and `samples`, and PPO's advantages as estimated."""

import pytest

from tests.support.policies import policy, samples

__all__ = ["policy", "samples"]


@pytest.fixture
def plain_advantages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advantages of tokens are not whitened, so that they have closed forms."""
    monkeypatch.setattr("tasks.ppo.critic.whiten", lambda advantages, _: advantages)
