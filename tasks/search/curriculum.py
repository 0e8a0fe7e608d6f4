"""The train problems that a round searches, in waves: those whose outcome is still open come first.

1. They are ordered by |θ − ½|, θ drawn from the posterior of each one's success rate, and the first
   `curriculum.problems` may be searched: Thompson sampling as in MoPPS (Qu et al. 2025, arXiv 2507.04632). Where
   nothing is known the order is random.
2. With `curriculum.groups` they are searched in waves until that number of them have a signal: dynamic sampling, DAPO
   (Yu et al. 2025, arXiv 2503.14476). The size of a wave follows from the share with a signal so far, as in GRESO
   (Zheng et al. 2025, arXiv 2506.02177).

The independent samples of a search are Bernoulli trials of the policy of that time; the older, the less they count for
the present one. For round r, and the earlier rounds k in which the problem was searched:

    success rate ~ Beta(1 + Σ_k discount^(r − k) · right_k, 1 + Σ_k discount^(r − k) · wrong_k)

This is the posterior of MoPPS, which counts the last round in full. All of it is a function of params, seed, round and
the outcomes of earlier rounds, not of the order of any file.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from tasks.params.curriculum import Curriculum
from tasks.records import SearchOutcome
from tasks.seeds import derive_seed

OPEN_RATE = 0.5
"""Success rate whose groups have the largest variance of rewards, and so the most signal."""


def candidates(
    problems: Sequence[str], outcomes: Iterable[SearchOutcome], params: Curriculum, seed: int, round: int
) -> list[str]:
    """Those of the ids `problems` that a round may search, the ones with the most open outcome first."""
    known: dict[str, list[SearchOutcome]] = defaultdict(list)
    for outcome in outcomes:
        known[outcome.problem_id].append(outcome)
    drawn = {
        name: success_posterior(known[name], params.discount, round).draw(derive_seed(seed, "curriculum", round, name))
        for name in problems
    }
    return sorted(problems, key=lambda name: (abs(drawn[name] - OPEN_RATE), name))[: params.problems]


def wave_size(groups: int | None, searched: int, with_signal: int, left: int) -> int:
    """How many of the `left` candidates to search next, after `searched` ones with `with_signal` signals.

    0: none, there are `groups` with a signal. The first wave is as large as if each candidate gave one, and no later
    one is larger. Without `groups` it is all of them.
    """
    if groups is None:
        return left
    missing = groups - with_signal
    if missing <= 0:
        return 0
    expected = math.ceil(missing * searched / max(with_signal, 1)) if searched else groups
    return min(expected, groups, left)


@dataclass(frozen=True)
class BetaPosterior:
    """Beta(alpha, beta); the prior is uniform."""

    alpha: float = 1.0
    beta: float = 1.0

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
