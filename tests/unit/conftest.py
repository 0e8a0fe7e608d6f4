"""The fixtures `policy` and `samples`."""

from tests.support.policies import policy, samples

__all__ = ["policy", "samples"]
