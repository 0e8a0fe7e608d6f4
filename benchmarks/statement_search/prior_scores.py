"""The statement prior on numpy arrays, as the search evaluates it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tasks.coldstart.expression_space import Space
from tasks.coldstart.expression_states import States, legal_statements, pair_kinds, use_kinds
from tasks.coldstart.statement_prior import (
    IMPOSSIBLE,
    Prior,
    describe_leaves,
    statement_scores,
    stop_scores,
    texts_of,
)

Floats = NDArray[np.float32]


def describe_spaces(prior: Prior, spaces: Sequence[Space], leaves: int) -> tuple[Floats, Floats]:
    """[P, L, D] of the leaves and [P, HIDDEN] of the questions, independent of the batch."""
    parts = [describe_leaves(prior.weights, texts_of([space], prior.vocabulary, leaves)) for space in spaces]
    return np.concatenate([leaf for leaf, _ in parts]), np.concatenate([question for _, question in parts])


def log_priors(prior: Prior, states: States, operands: Floats, question: Floats) -> Floats:
    """[B, S M M]: log-probabilities of the statements if the program continues; illegal ones IMPOSSIBLE."""
    statements = statement_scores(prior.weights, operands, question, pair_kinds(states), use_kinds(states))
    np.copyto(statements, IMPOSSIBLE, where=~legal_statements(states))
    every = statements.reshape(len(operands), -1)
    top = every.max(axis=1, keepdims=True)
    every -= top
    every -= np.log(np.exp(every).sum(axis=1, keepdims=True))
    every[top[:, 0] <= IMPOSSIBLE] = IMPOSSIBLE  # nothing is legal
    return every  # type: ignore[no-any-return]


def stop_chance(prior: Prior, latest: Floats, question: Floats, kinds: NDArray[np.int64]) -> Floats:
    """[B]: probability that the program ends with the value described by `latest` [B, D]."""
    return 1 / (1 + np.exp(-stop_scores(prior.weights, latest, question, kinds)))  # type: ignore[no-any-return]
