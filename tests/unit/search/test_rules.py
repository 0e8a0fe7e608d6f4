"""Each rule's formula against cases worked out by hand."""

from collections import Counter
from math import exp, log, sqrt

import numpy as np
import pytest

from tasks.search.rules import draw_index, soft_mix, uct


def test_uct_by_hand_and_what_was_never_tried_comes_first() -> None:
    scores = uct(np.array([[0.5, 0.2]]), np.array([[7.0]]), np.array([[3.0, 0.0]]), exploration=1.4)
    assert scores[0, 0] == pytest.approx(0.5 + 1.4 * sqrt(log(7) / 3))
    assert scores[0, 1] == np.inf


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
