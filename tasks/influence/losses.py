"""The losses that influence compares: -Σ_i A_i w_i Σ_t log p_it / N, as numbers a_i on log-probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.influence.sample_gradients import Direction, lora_factors
from tasks.policy.averaging import Averaging
from tasks.policy.lean import lean
from tasks.policy.processes import added_up, count, share
from tasks.policy.samples import Sample, merged
from tasks.policy.scorer import Scorer

if TYPE_CHECKING:
    from torch import Tensor


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


def loss_gradient(scorer: Scorer, samples: Sequence[Sample], averaging: Averaging) -> Direction:
    """The gradient of the samples' loss over the LoRA factors; zero where no sample has a signal.

    Several processes compute a part of the micro-batches each, and all get the whole.
    """
    import torch

    denominator = denominator_of(samples, averaging)
    modules = lora_factors(scorer.model)
    weights = [module.weight for module in modules.values()]
    direction = [torch.zeros_like(weight) for weight in weights]
    with lean(scorer.model):
        for batch in share(scorer.batches(merged([s for s in samples if s.advantage != 0]), count())):
            sums: Tensor = scorer.score(batch).logprobs.sum(1)
            gains = [s.count * s.advantage * averaging.weight(len(s.completion)) for s in batch.samples]
            loss = -(sums @ sums.new_tensor(gains)) / denominator
            for summed, gradient in zip(direction, torch.autograd.grad(loss, weights), strict=True):
                summed += gradient
    return dict(zip(modules, added_up(direction), strict=True))
