"""Weights of the tokens of an optimiser step, for the update and for influence.

Σ_i over the step's n completions, Σ_t over the |o_i| tokens of one, l_it the loss of a token:

    mean         the step's number                               from
    tokens       Σ_i Σ_t l_it / Σ_i |o_i|                        DAPO, Yu et al. 2025, eq. 8
    completions  Σ_i (Σ_t l_it / |o_i|) / n                      DeepSeekMath, Shao et al. 2024, eq. 3
    constant     Σ_i Σ_t l_it / (n · policy.max_new_tokens)      Dr. GRPO, Liu et al. 2025

Each is Σ_i weight_i Σ_t l_it / denominator, where the denominator is a sum over completions: it is known before the
micro-batches are made, so that their sizes never change the gradient.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.objective.surrogates import Mean, policy_loss
from tasks.params.fields import Loss


@dataclass(frozen=True)
class TokenWeights:
    """The weights of `update.loss`; `longest` is the maximum length of a completion."""

    loss: Loss
    longest: int

    @property
    def mean(self) -> Mean:
        """What the loss is averaged over."""
        return policy_loss(self.loss).mean

    def weight(self, length: int) -> float:
        """The weight of each token of a completion of `length` tokens."""
        return 1 / length if self.mean == "completions" else 1.0

    def denominator(self, lengths: Sequence[int]) -> int:
        """The contribution of completions of these lengths to the step's denominator."""
        numbers = {"tokens": sum(lengths), "completions": len(lengths), "constant": len(lengths) * self.longest}
        return numbers[self.mean]
