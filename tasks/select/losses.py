"""The losses that influence compares: a sample's part of the update's, and the validation loss.

    L_i   = -A_i w_i Σ_t log p_it / N, or w_i Σ_t l_it / N of token losses l    w, N: tasks/objective/token_weights.py
    L_val = -Σ_j c_j Σ_t log p_jt / M                                           M: all tokens of the validation samples

c_j is the advantage of j: the gradient is that of the expected reward (`seqloss-lastadv` in the code of IIF, Hu et al.
2025, "A snapshot of influence"). The value of this loss has no meaning, its sign neither: advantages are centred.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from tasks.model.sample import Sample
from tasks.model.scoring.token_scores import TokenScores
from tasks.objective.token_weights import TokenWeights

TokenLosses = Callable[[Sequence[Sample], TokenScores], Tensor]
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


def score_weights(samples: Sequence[Sample], averaging: TokenWeights) -> list[float]:
    """-A_i w_i / N of each sample: the weight of its score in the loss of them all."""
    denominator = loss_denominator(samples, averaging)
    return [-s.advantage * averaging.weight(len(s.completion)) / denominator for s in samples]


def token_loss_weights(samples: Sequence[Sample], averaging: TokenWeights) -> list[float]:
    """w_i / N of each sample, 0 where it has no signal: the weight of its token losses in the same loss."""
    denominator = loss_denominator(samples, averaging)
    return [averaging.weight(len(s.completion)) / denominator if s.has_signal else 0.0 for s in samples]


def summed_losses(samples: Sequence[Sample], scored: TokenScores, token_losses: TokenLosses) -> Tensor:
    """Σ_t l_it of each of R samples, [R]."""
    return token_losses(samples, scored).masked_fill(~scored.mask, 0).sum(1)


@dataclass(frozen=True)
class Validation:
    """The validation loss."""

    samples: Sequence[Sample]
    coefficients: Sequence[float]  # c of each sample: its advantage, before update.negative_weight

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
