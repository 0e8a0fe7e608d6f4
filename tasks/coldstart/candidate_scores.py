"""Scores of candidate programs for problems without siblings, by expectation maximisation over all problems of a run.

Right programs are regular across problems, wrong ones that happen to give the answer are not. So the statement prior
is trained on the weighted candidates of all problems, the likelihoods under it become the new weights, and so on ("hard
EM" with soft weights: Min et al. 2019, "A Discrete Hard EM Approach for Weakly Supervised Question Answering"). Two
priors, each trained on one half of the problems, score the other half.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.coldstart.expression_space import Program, Space
from tasks.coldstart.prior_training import log_likelihoods, train_prior
from tasks.seeds import derive_seed

EPOCHS, STEPS = 15, 150  # minimum of both for training
BATCH = 64  # examples of a step
NEGLIGIBLE = 0.03  # candidates of less weight are left out of training
DECAY = 3.0  # initial weights: exp(-rank / DECAY)

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class CandidatePool:
    """A problem's candidates, likelier ones first; `sure`: siblings have determined the first one."""

    space: Space
    programs: Sequence[Program]
    sure: bool


def score_candidates(pools: Sequence[CandidatePool], passes: int, seed: int) -> list[Scores]:
    """[candidates] for each pool: log-likelihood under a prior trained on other problems; -inf for pruned programs.

    Independent of the order of the pools.
    """
    order = sorted(range(len(pools)), key=lambda place: pools[place].space.problem_id)
    listed = [pools[place] for place in order]
    halves = np.array([derive_seed(seed, "regularity", pool.space.problem_id) % 2 for pool in listed], dtype=np.int64)
    scores: list[Scores] = [np.arange(len(pool.programs)) / -DECAY for pool in listed]
    for number in range(passes):
        weights = [_weights(pool, score) for pool, score in zip(listed, scores, strict=True)]
        for half in (0, 1):
            own, others = np.flatnonzero(halves == half).tolist(), np.flatnonzero(halves != half).tolist()
            half_scores = _cross_scores(
                [listed[i] for i in own],
                [listed[i] for i in others],
                [weights[i] for i in others],
                derive_seed(seed, "regularity", number, half) % 2**32,
            )
            for place, score in zip(own, half_scores, strict=True):
                scores[place] = score
    by_index = dict(zip(order, scores, strict=True))
    return [by_index[place] for place in range(len(pools))]


def _cross_scores(
    pools: list[CandidatePool], others: list[CandidatePool], weights: list[Scores], seed: int
) -> list[Scores]:
    """Scores of the candidates of `pools` under a prior trained on those of `others`."""
    examples = [
        ((pool.space, program), float(weight))
        for pool, each in zip(others, weights, strict=True)
        for program, weight in zip(pool.programs, each, strict=True)
        if weight > NEGLIGIBLE
    ]
    if not examples:
        return [np.arange(len(pool.programs)) / -DECAY for pool in pools]
    epochs = max(EPOCHS, STEPS * BATCH // len(examples))
    prior = train_prior([example for example, _ in examples], epochs, seed, weights=[weight for _, weight in examples])
    flat = log_likelihoods(prior, [(pool.space, program) for pool in pools for program in pool.programs])
    ends = np.cumsum([len(pool.programs) for pool in pools])
    return [np.asarray(part) for part in np.split(flat, ends[:-1])] if pools else []


def _weights(pool: CandidatePool, scores: Scores) -> Scores:
    """[candidates], summing to 1: weights in training; the first one alone if `sure`."""
    if pool.sure:
        return np.where(np.arange(len(scores)) == 0, 1.0, 0.0)
    finite = np.isfinite(scores)
    if not finite.any():
        return np.zeros(len(scores))
    likelihoods = np.where(finite, np.exp(np.where(finite, scores, 0) - scores[finite].max()), 0)
    total = float(likelihoods.sum())
    return likelihoods / total
