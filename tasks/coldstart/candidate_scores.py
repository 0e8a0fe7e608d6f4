"""Which of a problem's candidates is right, where only one answer tells: by what the problems of a run have in common.

A right program is regular across problems and a wrong one that happens to give the answer is not. So the prior that
reads the words is trained on the candidates of all problems, each by its weight, and then says how likely each
candidate is; that becomes its weight, and so on ("hard EM" with soft weights: Min et al. 2019, "A Discrete Hard EM
Approach for Weakly Supervised Question Answering"). No problem is judged by a prior that was trained on itself: there
are two priors, each trained on the other half.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.coldstart.expression_space import Program, Space
from tasks.coldstart.prior_training import log_likelihoods, train_prior
from tasks.seeds import derive_seed

EPOCHS, STEPS = 15, 150  # of training: at least so many of both
BATCH = 64  # examples of a step
NEGLIGIBLE = 0.03  # a candidate of less weight teaches nothing
DECAY = 3.0  # places in the order given by which the weight of a candidate falls to 1/e, before anything is learnt

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class CandidatePool:
    """A problem's candidates, likelier ones first as far as it tells alone. `sure`: siblings have told already."""

    space: Space
    programs: Sequence[Program]
    sure: bool


def score_candidates(pools: Sequence[CandidatePool], passes: int, seed: int) -> list[Scores]:
    """[candidates] of each pool: log-likelihood under a prior that was trained on other problems.

    A function of the set of pools: their order is nothing. -inf where a program is pruned by the search's space.
    """
    order = sorted(range(len(pools)), key=lambda place: pools[place].space.problem_id)
    listed = [pools[place] for place in order]
    halves = np.array([derive_seed(seed, "regularity", pool.space.problem_id) % 2 for pool in listed], dtype=np.int64)
    scores: list[Scores] = [np.arange(len(pool.programs)) / -DECAY for pool in listed]
    for number in range(passes):
        weights = [_weights(pool, score) for pool, score in zip(listed, scores, strict=True)]
        for half in (0, 1):
            there, others = np.flatnonzero(halves == half).tolist(), np.flatnonzero(halves != half).tolist()
            judged = _judged(
                [listed[i] for i in there],
                [listed[i] for i in others],
                [weights[i] for i in others],
                derive_seed(seed, "regularity", number, half) % 2**32,
            )
            for place, score in zip(there, judged, strict=True):
                scores[place] = score
    back = dict(zip(order, scores, strict=True))
    return [back[place] for place in range(len(pools))]


def _judged(pools: list[CandidatePool], others: list[CandidatePool], weights: list[Scores], seed: int) -> list[Scores]:
    """Scores of the candidates of `pools`, by a prior that is trained on those of `others`."""
    taught = [
        ((pool.space, program), float(weight))
        for pool, each in zip(others, weights, strict=True)
        for program, weight in zip(pool.programs, each, strict=True)
        if weight > NEGLIGIBLE
    ]
    if not taught:
        return [np.arange(len(pool.programs)) / -DECAY for pool in pools]
    epochs = max(EPOCHS, STEPS * BATCH // len(taught))
    prior = train_prior([example for example, _ in taught], epochs, seed, weights=[weight for _, weight in taught])
    flat = log_likelihoods(prior, [(pool.space, program) for pool in pools for program in pool.programs])
    ends = np.cumsum([len(pool.programs) for pool in pools])
    return [np.asarray(part) for part in np.split(flat, ends[:-1])] if pools else []


def _weights(pool: CandidatePool, scores: Scores) -> Scores:
    """[candidates], of sum 1: what each counts in training. Where siblings have told, the first one counts alone."""
    if pool.sure:
        return np.where(np.arange(len(scores)) == 0, 1.0, 0.0)
    finite = np.isfinite(scores)
    if not finite.any():
        return np.zeros(len(scores))
    likelihoods = np.where(finite, np.exp(np.where(finite, scores, 0) - scores[finite].max()), 0)
    total = float(likelihoods.sum())
    return likelihoods / total
