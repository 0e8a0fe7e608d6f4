"""Selection rules of tree search as pure functions of arrays.

`puct` and `uct` descend the tree by the highest score; `aflow` draws one of a few good nodes; `random` draws uniformly;
`enumerate` takes the oldest open node.
"""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Rule = Literal["puct", "uct", "aflow", "random", "enumerate"]
RULES: tuple[Rule, ...] = get_args(Rule)

Floats = NDArray[np.float64]

AFLOW_UNIFORM = 0.3
"""λ of AFlow's rule: the share of its probability that is uniform."""

AFLOW_SHARPNESS = 0.2
"""α of AFlow's rule, for scores in percent."""

EXPLORATION = 1.5
"""c of puct and uct, for values in [0, 1]."""

AFLOW_BEST = 3
"""Best nodes that AFlow's rule draws from, besides the root."""


def puct(value: Floats, prior: Floats, parent_visits: Floats, visits: Floats, exploration: float) -> Floats:
    """Q + c · P · √N(parent) / (1 + n)  (Silver et al. 2017, AlphaGo Zero, Methods, "Select").

    An unvisited edge has n = 0 and the value of its parent ("first play urgency").
    """
    return value + exploration * prior * np.sqrt(parent_visits) / (1 + visits)


def uct(value: Floats, parent_visits: Floats, visits: Floats, exploration: float) -> Floats:
    """Q + c · √(ln N(parent) / n), infinite where n = 0  (Kocsis & Szepesvári 2006)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        bonus = exploration * np.sqrt(np.log(np.maximum(parent_visits, 1)) / visits)
    return np.where(visits > 0, value + bonus, np.inf)


def soft_mix(scores: Floats, open_: NDArray[np.bool_]) -> Floats:
    """λ/n + (1 − λ) · softmax(α · 100 · score) over the open ones, 0 for the others  (Zhang et al. 2024, AFlow, eq. 3).

    `scores` [B, n] in [0, 1]. A row without an open one gives zeros.
    """
    count = np.maximum(open_.sum(axis=1, keepdims=True), 1)
    sharp = np.where(open_, AFLOW_SHARPNESS * 100 * scores, -np.inf)
    top = np.where(open_.any(axis=1, keepdims=True), sharp.max(axis=1, keepdims=True), 0)
    weights = np.exp(sharp - top)
    total = np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    mixed: Floats = AFLOW_UNIFORM * open_ / count + (1 - AFLOW_UNIFORM) * weights / total
    return mixed


def draw_index(probabilities: Floats, u: Floats) -> NDArray[np.int64]:
    """One index for each row of `probabilities` [B, n] (they need not sum to 1), by `u` [B] uniform in [0, 1)."""
    heights = np.cumsum(probabilities, axis=1)
    places = (heights <= u[:, None] * heights[:, -1:]).sum(axis=1)
    return np.minimum(places, probabilities.shape[1] - 1)  # type: ignore[no-any-return]
