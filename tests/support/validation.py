"""A validation loss whose coefficients are the samples' advantages, as `influence.loss: seqloss_lastadv` has them."""

from collections.abc import Sequence

from tasks.influence.losses import Validation
from tasks.model.sample import Sample


def advantage_validation(samples: Sequence[Sample], same_batch: bool = False) -> Validation:
    """c = A."""
    return Validation(samples, [s.advantage for s in samples], same_batch)
