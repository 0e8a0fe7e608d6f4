"""The losses that influence compares: a sample's part of the update's, and the validation loss with its gradient.

    L_i   = -A_i w_i Σ_t log p_it / N, or w_i Σ_t l_it / N of token losses l    w, N: tasks/objective/token_weights.py
    L_val = -Σ_j c_j Σ_t log p_jt / M                                           M: all tokens of the validation samples

    influence.loss     c_j
    seqloss_lastadv    the advantage of j: its gradient is that of the expected reward
    seqloss_reward     the reward of j
    contrastive        1 where j is better than its group, -1 where it is worse

The first two are from IIF (Hu et al. 2025, "A snapshot of influence"; `seqloss-lastadv`, `seqloss-reward` in its code).
The value of such a loss has no meaning, its sign neither: advantages are centred.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.model.cpu.fast_layers import fast_layers
from tasks.model.distributed.collectives import all_reduce_sum, local_steps, world_size
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.model.scoring.token_scores import TokenScores
from tasks.objective.token_weights import TokenWeights
from tasks.params.fields import ValidationLoss
from tasks.select.sample_gradients import Direction, lora_factors

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


def loss_denominator(samples: Sequence[Sample], averaging: TokenWeights) -> int:
    """N of these samples, at least 1."""
    return max(averaging.denominator([len(s.completion) for s in samples]), 1)


def score_weights(
    samples: Sequence[Sample], averaging: TokenWeights, step_samples: Sequence[Sample] | None = None
) -> list[float]:
    """-A_i w_i / N of each sample: the weight of its score in the loss of `step_samples`, by default of these."""
    denominator = loss_denominator(samples if step_samples is None else step_samples, averaging)
    return [-s.advantage * averaging.weight(len(s.completion)) / denominator for s in samples]


def token_loss_weights(
    samples: Sequence[Sample], averaging: TokenWeights, step_samples: Sequence[Sample] | None = None
) -> list[float]:
    """w_i / N of each sample, 0 where it has no signal: the weight of its token losses in the same loss."""
    denominator = loss_denominator(samples if step_samples is None else step_samples, averaging)
    return [averaging.weight(len(s.completion)) / denominator if s.has_signal else 0.0 for s in samples]


def summed_losses(samples: Sequence[Sample], scored: TokenScores, token_losses: TokenLosses) -> "Tensor":
    """Σ_t l_it of each of R samples, [R]."""
    return token_losses(samples, scored).masked_fill(~scored.mask, 0).sum(1)


@dataclass(frozen=True)
class Validation:
    """The validation loss."""

    samples: Sequence[Sample]
    coefficients: Sequence[float]  # c of each sample
    same_batch: bool = False  # they are the samples that are measured, in their order

    @property
    def tokens(self) -> int:
        """M, at least 1."""
        return max(sum(len(s.completion) for s in self.samples), 1)

    @property
    def score_weights(self) -> list[float]:
        """-c_j / M of each sample: the weight of its score in ∇L_val."""
        tokens = self.tokens
        return [-c / tokens for c in self.coefficients]

    @property
    def samples_with_signal(self) -> list[Sample]:
        return [s for s, c in zip(self.samples, self.coefficients, strict=True) if c]

    def distinct_rows(self) -> tuple[list[Sample], dict[Row, float]]:
        """One sample of each row with a signal, and the sum of each row's coefficients."""
        first, parts = dict[Row, Sample](), dict[Row, list[float]]()
        for s, c in zip(self.samples, self.coefficients, strict=True):
            if c:
                first.setdefault(row_of(s), s)
                parts.setdefault(row_of(s), []).append(c * s.count)
        return list(first.values()), {row: math.fsum(values) for row, values in parts.items()}

    def gradient(self, scorer: Scorer) -> Direction:
        """∇L_val over the LoRA factors; zero where no sample has a signal.

        Several processes compute a part of the micro-batches each, and all get the sum.
        """
        import torch

        tokens, (rows, coefficients) = self.tokens, self.distinct_rows()
        modules = lora_factors(scorer.model)
        weights = [module.weight for module in modules.values()]
        wide = torch.promote_types(weights[0].dtype, torch.float32)  # what narrow weights' gradients add up to
        direction = [torch.zeros_like(weight, dtype=wide) for weight in weights]
        with fast_layers(scorer.model):
            for batch, counts in local_steps(scorer.model, scorer.batches(rows, world_size())):
                sums = scorer.score(batch).logprobs.sum(1)
                loss = sums @ sums.new_tensor([-coefficients[row_of(s)] for s in batch.samples]) / tokens
                gradients = torch.autograd.grad(loss, weights)
                for summed, gradient in zip(direction, gradients if counts else [], strict=counts):
                    summed += gradient
        return dict(zip(modules, all_reduce_sum(direction), strict=True))


def validation_coefficients(
    loss: ValidationLoss, rewards: Sequence[Sequence[float | None]], advantages: Sequence[Sequence[float]]
) -> list[list[float]]:
    """c of each sample of each group, all [n][G]; a reward of None is not known and has 0."""
    if loss == "seqloss_lastadv":
        return [list(group) for group in advantages]
    if loss == "contrastive":
        return [[math.copysign(1, a) if a else 0.0 for a in group] for group in advantages]
    return [[reward or 0.0 for reward in group] for group in rewards]
