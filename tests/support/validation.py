"""A validation loss whose coefficients are the samples' advantages, as `influence.loss: seqloss_lastadv` has them."""

from collections.abc import Sequence

from tasks.influence.loss_gradients import Validation
from tasks.model.sample import Sample
from tasks.objective.token_weights import TokenWeights


def advantage_validation(samples: Sequence[Sample], averaging: TokenWeights, same_batch: bool = False) -> Validation:
    """c = A."""
    return Validation(samples, [s.advantage for s in samples], averaging, same_batch)
