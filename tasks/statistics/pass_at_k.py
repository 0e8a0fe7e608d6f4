"""pass@k and maj@k, unbiased.

pass@k  the probability that at least one of k samples is right (Chen et al. 2021, arXiv 2107.03374)
maj@k   the probability that the most frequent answer of k samples is right (Wang et al. 2022, arXiv 2203.11171)
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import comb, prod


def pass_at_k(n: int, c: int, k: int) -> float:
    """1 − C(n−c, k) / C(n, k) for c right samples among n.

    As a product over n−c+1 … n, which cannot overflow. 1 − (1 − c/n)^k would be too low: it draws with replacement.
    Raises ValueError unless 0 ≤ c ≤ n and 1 ≤ k ≤ n.
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"pass@k needs 0 ≤ c ≤ n and 1 ≤ k ≤ n, not n={n}, c={c}, k={k}")
    if n - c < k:
        return 1.0
    return 1.0 - prod(1.0 - k / i for i in range(n - c + 1, n + 1))


def maj_at_k(n: int, c: int, wrong: Sequence[int], k: int) -> float:
    """The share of all draws of k of n samples in which the right answer wins the vote, counted exactly.

    c samples gave the right answer, `wrong` counts each other answer; the rest of n gave none and does not vote. Ties
    go to the answer drawn first, which is each equally often. Raises ValueError unless c + Σ wrong ≤ n and 1 ≤ k ≤ n.
    """
    unanswered = n - c - sum(wrong)
    if not (c >= 0 <= unanswered and 1 <= k <= n) or min(wrong, default=0) < 0:
        raise ValueError(f"maj@k needs c and wrong of together at most n and 1 ≤ k ≤ n, not {n=}, {c=}, {wrong=}, {k=}")
    won = Fraction(0)
    for votes in range(1, min(c, k) + 1):
        for (others, ties), ways in _ways(wrong, votes, k - votes).items():
            won += Fraction(comb(c, votes) * ways * comb(unanswered, k - votes - others), 1 + ties)
    return float(won / comb(n, k))


def _ways(wrong: Sequence[int], most: int, room: int) -> dict[tuple[int, int], int]:
    """(samples, answers drawn `most` times) → number of ways to draw that many wrong answers, at most `room`,
    each answer at most `most` times."""
    ways_by_draw = Counter({(0, 0): 1})
    for count in wrong:
        before, ways_by_draw = ways_by_draw, Counter()
        for (samples, ties), ways in before.items():
            for more in range(min(count, most, room - samples) + 1):
                ways_by_draw[samples + more, ties + (more == most)] += ways * comb(count, more)
    return ways_by_draw
