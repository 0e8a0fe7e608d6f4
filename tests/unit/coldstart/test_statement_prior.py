"""The prior learns from programs which statements the words of a question ask for."""

import numpy as np
import pytest

from tasks.coldstart.expression_space import Program, space_of
from tasks.coldstart.prior_training import Example, log_likelihoods, train_prior

TIMES: Program = (("*", 6, 7),)
MINUS: Program = (("-", 6, 7),)


def examples(count: int) -> list[Example]:
    """Boxes are multiplied, gifts are taken away: only the words tell."""
    made: list[Example] = []
    for i in range(count):
        a, b = 50 + 3 * i, 3 + i
        made.append((space_of(f"b{i}", [f"There are {a} boxes with {b} pens. How many pens?"], [a * b]), TIMES))
        made.append((space_of(f"g{i}", [f"Ann has {a} pens and gives {b} away. How many are left?"], [a - b]), MINUS))
    return made


def test_the_words_decide_which_program_is_likelier_and_a_pruned_one_is_impossible() -> None:
    prior = train_prior(examples(40), epochs=30, seed=0)
    boxes = space_of("x", ["There are 31 boxes with 22 pens. How many pens?"], [682])
    gifts = space_of("y", ["Ann has 31 pens and gives 22 away. How many are left?"], [9])
    swapped: Program = (("*", 7, 6),)
    below_zero: Program = (("-", 7, 6),)
    cases = [(space, program) for space in (boxes, gifts) for program in (TIMES, MINUS, swapped, below_zero)]
    found = np.exp(log_likelihoods(prior, cases)).reshape(2, 4)
    assert found[0, 0] > 0.5 > found[0, 1]
    assert found[1, 1] > 0.5 > found[1, 0]
    assert found[:, 2] == pytest.approx(found[:, 0])
    assert found[:, 3].tolist() == [0, 0]


def test_training_is_a_function_of_its_arguments() -> None:
    one, two = train_prior(examples(10), epochs=1, seed=3), train_prior(examples(10), epochs=1, seed=3)
    assert all((one.weights[name] == two.weights[name]).all() for name in one.weights)
