"""The losses that influence compares: -Σ_i A_i w_i Σ_t log p_it / N, or Σ_i w_i Σ_t l_it / N of token losses l."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.influence.sample_gradients import Direction, lora_factors
from tasks.model.distributed.collectives import all_reduce_sum, local_steps, world_size
from tasks.model.fast_layers.fast_layers import fast_layers
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.model.scoring.token_scores import TokenScores
from tasks.objective.token_weights import TokenWeights

if TYPE_CHECKING:
    from torch import Tensor


TokenLosses = Callable[[Sequence[Sample], TokenScores], "Tensor"]
"""R samples and their token scores → the loss of each token [R, C], differentiable.

A sample's losses must not depend on other samples. Values where the mask is False are ignored.
"""


Row = tuple[str, tuple[int, ...], int | None]
"""Problem and completion: samples that share both have one score gradient. And the place in the group, where the
gradient is that of a loss, which may differ."""


def row_of(sample: Sample) -> Row:
    """Samples of one row have the same score gradient."""
    return sample.problem_id, sample.completion, None


@dataclass(frozen=True)
class Validation:
    """The loss that influence is measured on: -Σ_j c_j w_j Σ_t log p_jt / M (validation_losses.py)."""

    samples: Sequence[Sample]
    coefficients: Sequence[float]  # c of each sample
    averaging: TokenWeights
    same_batch: bool = False  # they are the samples that are measured, in their order

    @property
    def score_weights(self) -> list[float]:
        """-c_j w_j / M of each sample: the weight of its score in ∇L_val."""
        return score_weights(self.samples, self.averaging, self.coefficients)

    @property
    def samples_with_signal(self) -> list[Sample]:
        return [s for s, c in zip(self.samples, self.coefficients, strict=True) if c]

    def gradient(self, scorer: Scorer) -> Direction:
        """∇L_val"""
        return loss_gradient(scorer, self.samples, self.averaging, coefficients=self.coefficients)


def loss_denominator(samples: Sequence[Sample], averaging: TokenWeights) -> int:
    """The denominator of the samples' loss, at least 1."""
    return max(averaging.denominator([len(s.completion) for s in samples]), 1)


def score_weights(
    samples: Sequence[Sample],
    averaging: TokenWeights,
    coefficients: Sequence[float] | None = None,
    step_samples: Sequence[Sample] | None = None,
) -> list[float]:
    """-A_i w_i / N of each sample: the weight of its score in the loss. `coefficients` take the place of A.

    That is the loss of `step_samples`, by default of these samples.
    """
    denominator = loss_denominator(samples if step_samples is None else step_samples, averaging)
    given = _advantages(samples) if coefficients is None else coefficients
    return [-c * averaging.weight(len(s.completion)) / denominator for s, c in zip(samples, given, strict=True)]


def token_loss_weights(
    samples: Sequence[Sample], averaging: TokenWeights, step_samples: Sequence[Sample] | None = None
) -> list[float]:
    """w_i / N of each sample, 0 where it has no signal: the weight of its token losses in the loss.

    That is the loss of `step_samples`, by default of these samples.
    """
    denominator = loss_denominator(samples if step_samples is None else step_samples, averaging)
    return [averaging.weight(len(s.completion)) / denominator if s.has_signal else 0.0 for s in samples]


def summed_losses(samples: Sequence[Sample], scored: TokenScores, token_losses: TokenLosses) -> "Tensor":
    """Σ_t l_it of each of R samples, [R]."""
    return token_losses(samples, scored).masked_fill(~scored.mask, 0).sum(1)


def distinct_rows(samples: Sequence[Sample], coefficients: Sequence[float]) -> tuple[list[Sample], dict[Row, float]]:
    """One sample of each row with a signal, and the sum of each row's coefficients."""
    first, parts = dict[Row, Sample](), dict[Row, list[float]]()
    for s, c in zip(samples, coefficients, strict=True):
        if c:
            first.setdefault(row_of(s), s)
            parts.setdefault(row_of(s), []).append(c * s.count)
    return list(first.values()), {row: math.fsum(values) for row, values in parts.items()}


def loss_gradient(
    scorer: Scorer,
    samples: Sequence[Sample],
    averaging: TokenWeights,
    token_losses: TokenLosses | None = None,
    coefficients: Sequence[float] | None = None,
) -> Direction:
    """The gradient of the samples' loss over the LoRA factors; zero where no sample has a signal.

    `coefficients` take the place of the advantages. Several processes compute a part of the micro-batches each, and all
    get the sum.
    """
    import torch

    given = _advantages(samples) if coefficients is None else coefficients
    denominator, (rows, sums_of) = loss_denominator(samples, averaging), distinct_rows(samples, given)
    if token_losses:  # which may differ between samples of one row
        rows = [s for s in samples if s.has_signal]
    modules = lora_factors(scorer.model)
    weights = [module.weight for module in modules.values()]
    wide = torch.promote_types(weights[0].dtype, torch.float32)  # what narrow weights' gradients add up to
    direction = [torch.zeros_like(weight, dtype=wide) for weight in weights]
    with fast_layers(scorer.model):
        for batch, counts in local_steps(scorer.model, scorer.batches(rows, world_size())):
            scored = scorer.score(batch)
            weights_of_rows = [averaging.weight(len(s.completion)) for s in batch.samples]
            if token_losses:
                sums = summed_losses(batch.samples, scored, token_losses)
                factors = [s.count * w for s, w in zip(batch.samples, weights_of_rows, strict=True)]
            else:
                sums = scored.logprobs.sum(1)
                factors = [-sums_of[row_of(s)] * w for s, w in zip(batch.samples, weights_of_rows, strict=True)]
            loss = sums @ sums.new_tensor(factors) / denominator
            gradients = torch.autograd.grad(loss, weights)
            for summed, gradient in zip(direction, gradients if counts else [], strict=counts):
                summed += gradient
    return dict(zip(modules, all_reduce_sum(direction), strict=True))


def _advantages(samples: Sequence[Sample]) -> list[float]:
    return [s.advantage for s in samples]
