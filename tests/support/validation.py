"""A validation loss whose coefficients are the samples' advantages, as `influence.loss: seqloss_lastadv` has them."""

from collections.abc import Sequence

from tasks.model.sample import Sample
from tasks.select.losses import Validation


def advantage_validation(samples: Sequence[Sample], same_batch: bool = False) -> Validation:
    """c = A."""
    return Validation(samples, [s.advantage for s in samples], same_batch)
