"""KL(policy ‖ reference) of each token over the whole vocabulary, with one model in memory and two sets of weights."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tasks.model.sample import Sample
from tasks.model.scoring.micro_batches import MicroBatch
from tasks.model.scoring.scorer import Scorer
from tasks.objective.recorded_logprobs import Logprobs, rows_of_samples

if TYPE_CHECKING:
    from torch import Tensor

Weights = dict[str, "Tensor"]
"""Trained weights by name."""

CHUNK = 256
"""Tokens whose distributions are compared at a time."""


def trained_weights(model: Any) -> Weights:
    """A copy of the model's trained weights."""
    return {name: weight.detach().clone() for name, weight in model.named_parameters() if weight.requires_grad}


def score_vocabulary_kl(scorer: Scorer, samples: Sequence[Sample], reference: Weights) -> Logprobs:
    """Σ_v p(v) (log p(v) - log p_reference(v)) at each token of the samples, by the scorer's model and these weights.

    All logits of a micro-batch are in memory twice; layers are computed the plain way, since their weights change.
    """
    import torch

    def rows_of(batch: MicroBatch) -> "Tensor":
        ours, index = scorer.scaled_logits(batch)
        with _exchanged(scorer.model, reference):
            theirs, _ = scorer.scaled_logits(batch)
        pairs = zip(torch.split(ours, CHUNK), torch.split(theirs, CHUNK), strict=True)
        found = torch.cat([vocabulary_kl(*pair) for pair in pairs])
        return found.new_zeros(index.mask.shape).index_put(tuple(index.places), found)

    return rows_of_samples(scorer, samples, rows_of)


def vocabulary_kl(ours: "Tensor", theirs: "Tensor") -> "Tensor":
    """KL of the distributions of these logits; [..., V] → [...]."""
    own = ours.log_softmax(-1)
    return (own.exp() * (own - theirs.log_softmax(-1))).sum(-1)


@contextmanager
def _exchanged(model: Any, weights: Weights) -> Iterator[None]:
    """The model with these trained weights in the block, and with its own after it."""
    trained = {name: weight for name, weight in model.named_parameters() if name in weights}
    before = {name: weight.data for name, weight in trained.items()}
    for name, weight in trained.items():
        weight.data = weights[name]
    try:
        yield
    finally:
        for name, weight in trained.items():
            weight.data = before[name]
