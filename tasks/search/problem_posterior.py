"""Posterior of a train problem's success rate, and the chance that it is searched, from the outcomes of its searches.

The independent samples of a search are Bernoulli trials of the policy of that time; the older, the less they count for
the present one. For round r, and the earlier rounds k in which the problem was searched:

    success rate ~ Beta(1 + Σ_k discount^(r − k) · right_k, 1 + Σ_k discount^(r − k) · wrong_k)

This is the posterior of MoPPS (Qu et al. 2025, arXiv 2507.04632), which counts the last round in full. A problem whose
last z searches had no signal, as all completions were right or all wrong, is searched with probability exploration^z
(GRESO, Zheng et al. 2025, arXiv 2506.02177).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from tasks.records import SearchOutcome


@dataclass(frozen=True)
class BetaPosterior:
    """Beta(alpha, beta); the prior is uniform."""

    alpha: float = 1.0
    beta: float = 1.0

    @property
    def mean(self) -> float:
        return self.alpha / (self.alpha + self.beta)

    def draw(self, seed: int) -> float:
        """One value of the distribution."""
        return Random(seed).betavariate(self.alpha, self.beta)


def success_posterior(outcomes: Iterable[SearchOutcome], discount: float, round: int) -> BetaPosterior:
    """Posterior for `round` from one problem's outcomes in earlier rounds, in any order; discount 0: the prior."""
    right = wrong = 0.0
    for outcome in outcomes:
        weight = discount ** (round - outcome.round)
        right += weight * outcome.right
        wrong += weight * (outcome.samples - outcome.right)
    return BetaPosterior(1 + right, 1 + wrong)


def searches_without_signal(outcomes: Iterable[SearchOutcome]) -> int:
    """How many of one problem's searches there are since the last one that had a signal; outcomes in any order."""
    found = list(outcomes)
    last = max((outcome.round for outcome in found if outcome.signal), default=0)
    return sum(outcome.round > last for outcome in found)


def search_probability(without_signal: int, exploration: float) -> float:
    """Chance that a problem is searched whose last `without_signal` searches had no signal."""
    return exploration**without_signal
