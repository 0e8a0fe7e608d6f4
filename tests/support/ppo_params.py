"""The section `ppo` of params.yaml for tests: nothing but plain returns minus values, unless a test asks for it."""

from typing import Any

from tasks.params.sections import Ppo

PLAIN: dict[str, Any] = {"gamma": 1.0, "lam": 1.0, "clip": 0.2, "value_weight": 0.1, "value_rate": 0.01}


def ppo_params(**changes: Any) -> Ppo:
    """With `changes`."""
    return Ppo.model_validate(PLAIN | changes)
