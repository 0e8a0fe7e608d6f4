"""maj@k: the chance that the most frequent answer of k samples is right (Wang et al. 2022, arXiv 2203.11171)."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import comb


def maj_at_k(n: int, c: int, wrong: Sequence[int], k: int) -> float:
    """Of all ways to draw k of n samples in turn, the share in which the right answer wins the vote.

    c samples gave it, `wrong` are the numbers that gave each other answer, and what is left of n gave none and has no
    vote. Of answers with as many votes the one that was drawn first wins, which is each of them equally often. Counted
    exactly. Raises ValueError unless c and `wrong` are of together at most n samples and 1 ≤ k ≤ n.
    """
    silent = n - c - sum(wrong)
    if not (c >= 0 <= silent and 1 <= k <= n) or min(wrong, default=0) < 0:
        raise ValueError(f"maj@k needs c and wrong of together at most n and 1 ≤ k ≤ n, not {n=}, {c=}, {wrong=}, {k=}")
    won = Fraction(0)
    for votes in range(1, min(c, k) + 1):
        for (others, ties), ways in _ways(wrong, votes, k - votes).items():
            won += Fraction(comb(c, votes) * ways * comb(silent, k - votes - others), 1 + ties)
    return float(won / comb(n, k))


def _ways(wrong: Sequence[int], most: int, room: int) -> dict[tuple[int, int], int]:
    """(samples, answers with `most`) → in how many ways so many samples, at most `room`, can be drawn of wrong answers.

    None of them is drawn more than `most` times.
    """
    found = Counter({(0, 0): 1})
    for count in wrong:
        before, found = found, Counter()
        for (samples, ties), ways in before.items():
            for more in range(min(count, most, room - samples) + 1):
                found[samples + more, ties + (more == most)] += ways * comb(count, more)
    return found
