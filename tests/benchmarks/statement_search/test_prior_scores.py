"""The search computes what the training of the prior differentiated."""

from functools import cache

import numpy as np
import pytest

from benchmarks.statement_search.array_search import SearchPlan, search
from benchmarks.statement_search.prior_scores import describe_spaces, log_priors, stop_chance
from tasks.coldstart.expression_space import STATEMENTS, SYMBOLS, Program, Space, space_of
from tasks.coldstart.expression_states import legal_statements, replay, width_of
from tasks.coldstart.prior_training import Example, torch_losses, train_prior, training_batches
from tasks.coldstart.statement_prior import IMPOSSIBLE, Prior, describe_value

TIMES: Program = (("*", 6, 7),)
MINUS: Program = (("-", 6, 7),)


def examples() -> list[Example]:
    """Boxes are multiplied, gifts are taken away: only the words tell."""
    made: list[Example] = []
    for i in range(40):
        a, b = 50 + 3 * i, 3 + i
        made.append((space_of(f"b{i}", [f"There are {a} boxes with {b} pens. How many pens?"], [a * b]), TIMES))
        made.append((space_of(f"g{i}", [f"Ann has {a} pens and gives {b} away. How many are left?"], [a - b]), MINUS))
    return made


@cache
def learnt() -> Prior:
    return train_prior(examples(), epochs=30, seed=0)


def first_log_priors(prior: Prior, space: Space) -> np.ndarray:
    width = width_of(space)
    leaves, question = describe_spaces(prior, [space], width - STATEMENTS)
    operands = np.concatenate([np.zeros((1, STATEMENTS, leaves.shape[2]), dtype=np.float32), leaves], axis=1)
    logs = log_priors(prior, replay([space], [()], 0, width), operands, question)
    return logs.reshape(len(SYMBOLS), width, width)


def test_the_words_decide_and_the_search_finds_the_program_first() -> None:
    boxes = space_of("x", ["There are 31 boxes with 22 pens. How many pens?"], [682])
    gifts = space_of("y", ["Ann has 31 pens and gives 22 away. How many are left?"], [9])
    for space, wanted in ((boxes, (2, 6, 7)), (gifts, (1, 6, 7))):
        logs = first_log_priors(learnt(), space)
        assert np.unravel_index(logs.argmax(), logs.shape) == wanted
    outcomes = search([boxes, gifts], SearchPlan("puct", 50, seed=0, stop_at=1), learnt())
    assert [outcome.hits for outcome in outcomes] == [[(1, TIMES)], [(1, MINUS)]]


def test_log_priors_are_a_distribution_over_the_legal_statements() -> None:
    space = examples()[1][0]
    logs = first_log_priors(learnt(), space)
    assert np.exp(logs).sum() == pytest.approx(1, abs=1e-5)
    allowed = legal_statements(replay([space], [()], 0, width_of(space)))[0]
    assert (logs[~allowed] < IMPOSSIBLE / 2).all()


def test_the_search_computes_what_training_differentiated() -> None:
    import torch

    prior, example = learnt(), examples()[0]
    (lesson,) = training_batches([example], prior.vocabulary, 1, 0)
    weights = {name: torch.from_numpy(value) for name, value in prior.weights.items()}
    first, end = torch_losses(weights, lesson).tolist()
    assert -first_log_priors(prior, example[0])[2, 6, 7] == pytest.approx(first, abs=1e-4)
    leaves, question = describe_spaces(prior, [example[0]], width_of(example[0]) - STATEMENTS)
    value = describe_value(prior.weights, np.array([2]), leaves[:, 0], leaves[:, 1])
    chance = stop_chance(prior, value, question, np.array([lesson.stops[0, 1]]))[0]
    assert -np.log(chance) == pytest.approx(end, abs=1e-4)
