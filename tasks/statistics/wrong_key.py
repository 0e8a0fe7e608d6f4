"""The probability that a problem's key is wrong, from the answers of completions over all rounds.

A logistic regression on five features of a question, of whose N completions k answer the key and m the most frequent
other answer (the rival); of those that solve most of its siblings, which only a right program does, k′ and m′:

    logit p = WEIGHTS · (1, o, log ((m′ + ½) / (k′ + ½)), [k < ½], s o, [none solves most siblings])
    o = log ((m + ½) / (k + ½))

s is the strength of the policy, the mean of k / N over all questions: what a weak policy mostly answers is often wrong,
however often it says so. A question without siblings that have other answers has k′ = m′ = 0 and the last feature 0.

Fitted once by maximum likelihood: python -m benchmarks.suspects fit. Cases and figures:
docs/results/2026-11-29-suspects.md. Before any answer is seen a key is taken to be wrong as often as in these cases.
"""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

WEIGHTS = (-5.412, 0.416, 1.039, 2.483, 0.643, -2.223)
"""Of 1 and the five features, by 89,696 questions with 3,308 wrong keys."""


class Votes(NamedTuple):
    """Answers of the completions of a question, over all rounds in which it was asked."""

    samples: int  # N, those without an answer included
    key: float  # k; a partly right answer counts as its score
    rival: int  # m
    confirmed_key: float = 0  # k′
    confirmed_rival: int = 0  # m′
    has_siblings: bool = False  # with other answers


def wrong_key_probabilities(votes: Sequence[Votes]) -> list[float]:
    """The probability that the key is wrong of each question of a project."""
    strength = strength_of(votes)
    return [_sigmoid(sum(map(float.__mul__, WEIGHTS, (1.0, *features(vote, strength))))) for vote in votes]


def strength_of(votes: Sequence[Votes]) -> float:
    """The mean share of completions that answer the key."""
    return fmean(vote.key / vote.samples for vote in votes) if votes else 0.0


def features(votes: Votes, strength: float) -> tuple[float, ...]:
    """The five features of a question."""
    odds = math.log((votes.rival + 0.5) / (votes.key + 0.5))
    confirmed = math.log((votes.confirmed_rival + 0.5) / (votes.confirmed_key + 0.5))
    unsolved = votes.has_siblings and votes.confirmed_rival + votes.confirmed_key < 0.5
    return odds, confirmed, float(votes.key < 0.5), strength * odds, float(unsolved)


def _sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0
