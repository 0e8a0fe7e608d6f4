"""The losses that influence compares: a sample's part of the update's, and the validation loss.

    L_i   = -A_i w_i Σ_t log p_it / N, or w_i Σ_t l_it / N of token losses l    w, N: tasks/objective/token_weights.py
    L_val = -Σ_j c_j Σ_t log p_jt / M                                           M: all tokens of the validation samples

    influence.loss     c_j
    seqloss-lastadv    the advantage of j, with PPO that of its last token: the gradient is that of the expected reward
    seqloss-reward     the reward of j
    contrastive        1 for the half of higher rewards, -1 for the other half

The names of the first two are those of the code of Hu et al. 2025, "A snapshot of influence". The value of such a loss
has no meaning, nor has its sign: advantages are centred.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from tasks.model.sample import Sample
from tasks.model.scoring.token_scores import TokenScores
from tasks.objective.advantages import known_rewards
from tasks.objective.groups import SampleGroup, samples_in
from tasks.objective.token_weights import TokenWeights
from tasks.params.fields import ValidationLoss
from tasks.params.sections import Influence
from tasks.seeds import derive_seed

TokenLossFunction = Callable[[Sequence[Sample], TokenScores], Tensor]
"""R samples and their token scores → the loss of each token [R, C], differentiable.

A sample's losses must not depend on other samples. Values where the mask is False are ignored.
"""

GradientRow = tuple[str, tuple[int, ...], int | None]
"""Problem and completion: samples that share both have one score gradient. And the place in the group, where the
gradient is that of a loss, which may differ."""


def row_of(sample: Sample) -> GradientRow:
    """The row of the sample's score gradient."""
    return sample.problem_id, sample.completion, None


def sum_by_row(
    row: Callable[[Sample], GradientRow], samples: Sequence[Sample], numbers: Sequence[float]
) -> dict[GradientRow, float]:
    """The sum of the numbers of each row's samples; both [n]."""
    sums = dict[GradientRow, float]()
    for sample, number in zip(samples, numbers, strict=True):
        sums[row(sample)] = sums.get(row(sample), 0.0) + number
    return sums


def loss_denominator(samples: Sequence[Sample], averaging: TokenWeights) -> int:
    """N, what an update step on these samples divides its loss by; at least 1."""
    return max(averaging.denominator([len(s.completion) for s in samples]), 1)


def score_weights(
    samples: Sequence[Sample], averaging: TokenWeights, step_samples: Sequence[Sample] | None = None
) -> list[float]:
    """-A_i w_i / N of each sample: the weight of its score in the loss of `step_samples`, by default of them all."""
    denominator = loss_denominator(step_samples or samples, averaging)
    return [-s.advantage * averaging.weight(len(s.completion)) / denominator for s in samples]


def token_loss_weights(
    samples: Sequence[Sample], averaging: TokenWeights, step_samples: Sequence[Sample] | None = None
) -> list[float]:
    """w_i / N of each sample, 0 where it has no signal: the weight of its token losses in the same loss."""
    denominator = loss_denominator(step_samples or samples, averaging)
    return [averaging.weight(len(s.completion)) / denominator if s.has_signal else 0.0 for s in samples]


def summed_losses(samples: Sequence[Sample], scored: TokenScores, token_losses: TokenLossFunction) -> Tensor:
    """Σ_t l_it of each of R samples, [R]."""
    return token_losses(samples, scored).masked_fill(~scored.mask, 0).sum(1)


def coefficients_of(loss: ValidationLoss, advantages: Sequence[float], rewards: Sequence[float | None]) -> list[float]:
    """c of each validation sample, 0 where its reward failed; advantages, before update.negative_weight, and rewards
    [n] → [n]."""
    if loss == "seqloss-lastadv":
        return [*advantages]
    if loss == "seqloss-reward":
        return [reward or 0.0 for reward in rewards]
    return contrast(rewards)


def contrast(rewards: Sequence[float | None]) -> list[float]:
    """1 for the half of higher rewards, -1 for the other, 0 where a reward failed; [n] → [n].

    Equal rewards in the middle share their parts of both halves: with two of ten rewards 1 and eight 0, these are
    -5/8 each. All sum to 0.
    """
    known = sorted(known_rewards(rewards))
    middle, by_reward = len(known) / 2, dict[float, float]()
    for reward in set(known):
        low, high = bisect_left(known, reward), bisect_right(known, reward)
        above = min(max(high - middle, 0.0), high - low)
        by_reward[reward] = (2 * above - (high - low)) / (high - low)
    return [0.0 if reward is None else by_reward[reward] for reward in rewards]


@dataclass(frozen=True)
class Validation:
    """The validation loss: samples, each with its coefficient."""

    samples: Sequence[Sample]
    coefficients: Sequence[float]  # c of each sample

    @property
    def tokens(self) -> int:
        """M, the number of all tokens; at least 1."""
        return max(sum(len(s.completion) for s in self.samples), 1)

    @property
    def score_weights(self) -> list[float]:
        """-c_j / M of each sample: the weight of its score in ∇L_val."""
        tokens = self.tokens
        return [-c / tokens for c in self.coefficients]

    @property
    def row_weights(self) -> dict[GradientRow, float]:
        """The weight of each row's score in ∇L_val."""
        return sum_by_row(row_of, self.samples, self.score_weights)

    @property
    def samples_with_signal(self) -> list[Sample]:
        return [s for s, c in zip(self.samples, self.coefficients, strict=True) if c]

    def distinct_rows(self) -> tuple[list[Sample], dict[GradientRow, float]]:
        """One sample of each row with a signal, and the sum of each row's coefficients."""
        first, parts = dict[GradientRow, Sample](), dict[GradientRow, list[float]]()
        for s, c in zip(self.samples, self.coefficients, strict=True):
            if c:
                first.setdefault(row_of(s), s)
                parts.setdefault(row_of(s), []).append(c * s.count)
        return list(first.values()), {row: math.fsum(values) for row, values in parts.items()}


def validation_of(groups: Sequence[SampleGroup], influence: Influence, round: int) -> Validation:
    """The loss of the groups of a split, by `influence.loss` and of those samples that `influence.sampling` takes.

    Coefficients are those among all samples of the groups, before the highest or lowest are taken. A seed decides
    between equal rewards.
    """
    samples = samples_in(groups)
    rewards = [reward for group in groups for reward in group.baseline_rewards]
    advantages = [advantage for group in groups for advantage in group.advantages]
    coefficients = coefficients_of(influence.loss, advantages, rewards)
    if influence.validation == "same_batch" or influence.sampling == "random":
        return Validation(samples, coefficients)
    sign = -1 if influence.sampling == "highest" else 1
    known = [place for place, reward in enumerate(rewards) if reward is not None]

    def order(place: int) -> tuple[float, int]:
        sample = samples[place]
        return sign * (rewards[place] or 0.0), derive_seed("validation", round, sample.problem_id, sample.member)

    taken = sorted(sorted(known, key=order)[: influence.k])
    return Validation([samples[place] for place in taken], [coefficients[place] for place in taken])
