"""A validation loss whose coefficients are the samples' advantages."""

from collections.abc import Sequence

from tasks.model.sample import Sample
from tasks.select.losses import Validation


def advantage_validation(samples: Sequence[Sample]) -> Validation:
    """c = A."""
    return Validation(samples, [s.advantage for s in samples])
