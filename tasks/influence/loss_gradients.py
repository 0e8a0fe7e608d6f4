"""The losses that influence compares: -Σ_i A_i w_i Σ_t log p_it / N, as numbers a_i on log-probabilities.

Where that is not the samples' loss, it is Σ_i w_i Σ_t l_it / N of token losses l that somebody else knows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.influence.sample_gradients import Direction, lora_factors
from tasks.model.distributed.collectives import added_up, count, share
from tasks.model.fast_layers.fast_layers import lean
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.model.scoring.token_scores import Scored
from tasks.objective.samples import merged
from tasks.objective.token_weights import Averaging

if TYPE_CHECKING:
    from torch import Tensor


TokenLosses = Callable[[Sequence[Sample], Scored], "Tensor"]
"""R samples, what their tokens are worth to the model → what each token gives to the loss [R, C], differentiable.

A sample's must not depend on the others'. What stands where the mask is False is not looked at.
"""


@dataclass(frozen=True)
class Validation:
    """What influence is measured against: the samples' `advantage` is their c (validation_losses.py)."""

    samples: Sequence[Sample]
    averaging: Averaging
    same_batch: bool = False  # they are the samples that are measured, in their order

    def gradient(self, scorer: Scorer) -> Direction:
        """∇L_val"""
        return loss_gradient(scorer, self.samples, self.averaging)


def denominator_of(samples: Sequence[Sample], averaging: Averaging) -> int:
    """What the samples' losses are divided by, at least 1."""
    return max(averaging.denominator([len(s.completion) for s in samples]), 1)


def coefficients(samples: Sequence[Sample], averaging: Averaging) -> list[float]:
    """-A_i w_i / N of each sample: what its score weighs in the loss."""
    denominator = denominator_of(samples, averaging)
    return [-s.advantage * averaging.weight(len(s.completion)) / denominator for s in samples]


def loss_weights(samples: Sequence[Sample], averaging: Averaging) -> list[float]:
    """w_i / N of each sample, 0 where it has no signal: what its token losses weigh in the loss."""
    denominator = denominator_of(samples, averaging)
    return [averaging.weight(len(s.completion)) / denominator if s.advantage else 0.0 for s in samples]


def summed_losses(samples: Sequence[Sample], scored: Scored, token_losses: TokenLosses) -> "Tensor":
    """Σ_t l_it of each of R samples, [R]."""
    return token_losses(samples, scored).masked_fill(~scored.mask, 0).sum(1)


def loss_gradient(
    scorer: Scorer, samples: Sequence[Sample], averaging: Averaging, token_losses: TokenLosses | None = None
) -> Direction:
    """The gradient of the samples' loss over the LoRA factors; zero where no sample has a signal.

    Several processes compute a part of the micro-batches each, and all get the whole.
    """
    import torch

    denominator, rows = denominator_of(samples, averaging), [s for s in samples if s.advantage != 0]
    modules = lora_factors(scorer.model)
    weights = [module.weight for module in modules.values()]
    wide = torch.promote_types(weights[0].dtype, torch.float32)  # what narrow weights' gradients add up to
    direction = [torch.zeros_like(weight, dtype=wide) for weight in weights]
    with lean(scorer.model):
        for batch in share(scorer.batches(rows if token_losses else merged(rows), count())):
            scored = scorer.score(batch)
            gains = [s.count * averaging.weight(len(s.completion)) for s in batch.samples]
            if token_losses:
                sums = summed_losses(batch.samples, scored, token_losses)
            else:
                sums = scored.logprobs.sum(1)
                gains = [-s.advantage * gain for s, gain in zip(batch.samples, gains, strict=True)]
            loss = sums @ sums.new_tensor(gains) / denominator
            for summed, gradient in zip(direction, torch.autograd.grad(loss, weights), strict=True):
                summed += gradient
    return dict(zip(modules, added_up(direction), strict=True))
