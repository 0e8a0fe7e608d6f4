"""Leaves of a question."""

import numpy as np

from tasks.coldstart.expression_space import space_of


def test_leaves_are_the_quantities_then_constants_with_those_that_words_bring() -> None:
    space = space_of("p", ["In 3 weeks and 5 hours?", "In 4 weeks and 9 hours?"], [1, 2])
    assert space.texts == ["n[0]", "n[1]", "1", "2", "100", "7", "52", "60"]
    assert space.inputs[:2, :2].tolist() == [[3, 5], [4, 9]]
    assert (space.inputs[2:, 2:] == space.inputs[0, 2:]).all()  # constants are the same on every input
    assert len(np.unique(space.inputs[:, 0])) == 4
