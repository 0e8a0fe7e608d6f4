"""The formulas of the rules against cases worked out by hand; PUCT: test_node.py."""

from collections import Counter
from math import exp

import numpy as np
import pytest

from tasks.search.rules import draw_index, soft_mix


def test_soft_mix_by_hand() -> None:
    open_ = np.array([[True, True, False], [False, False, False]])
    probabilities = soft_mix(np.array([[0.5, 0.4, 0.9], [0, 0, 0]]), open_)
    sharp = [exp(0.2 * 50), exp(0.2 * 40)]
    expected = [0.3 / 2 + 0.7 * s / sum(sharp) for s in sharp]
    assert probabilities[0].tolist() == pytest.approx([*expected, 0])
    assert probabilities[1].tolist() == [0, 0, 0]


def test_drawing_follows_the_probabilities() -> None:
    u = (np.arange(1000) + 0.5) / 1000
    counts = Counter(draw_index(np.tile([0.2, 0.0, 0.6], (1000, 1)), u).tolist())
    assert counts == {0: 250, 2: 750}
