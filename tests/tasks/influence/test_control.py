"""Whether there is more to drop than is dropped where nothing is wrong."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.influence.control import CHANCE, Dropped, chance_of_more, dropped, trusted_influences
from tasks.influence.influence import Measure, influences
from tasks.influence.losses import Validation, denominator_of
from tasks.policy.averaging import Averaging
from tasks.policy.base import Policy
from tasks.policy.samples import Sample
from tasks.policy.scorer import LAYOUTS, Scorer

BY_TOKEN = Averaging("dapo", longest=64)


def test_what_is_dropped_is_counted_of_the_samples_with_a_signal() -> None:
    found = dropped([1.0, -1.0, 0.0, 0.5], [0.7, 0.0, 0.0, 1.0])
    assert (found, found.share) == (Dropped(1, 3), pytest.approx(1 / 3))
    assert dropped([0.0], [0.0]).share == 0


@pytest.mark.parametrize(
    ("training", "trusted", "chance"),
    [
        (Dropped(0, 10), Dropped(5, 10), 1.0),
        (Dropped(3, 4), Dropped(1, 4), 17 / 70),  # Fisher's tea
        (Dropped(2, 2), Dropped(0, 3), 1 / 10),
        (Dropped(5, 9), Dropped(0, 0), 1.0),  # nothing to compare with
        (Dropped(0, 0), Dropped(5, 9), 1.0),
    ],
)
def test_chance_is_fishers(training: Dropped, trusted: Dropped, chance: float) -> None:
    assert chance_of_more(training, trusted) == pytest.approx(chance, rel=1e-12)


@given(st.integers(1, 60), st.integers(0, 60), st.integers(1, 60), st.integers(0, 60))
def test_the_more_are_dropped_the_less_it_is_chance(of: int, count: int, judges: int, own: int) -> None:
    count, trusted = min(count, of - 1), Dropped(min(own, judges), judges)
    assert chance_of_more(Dropped(count + 1, of), trusted) <= chance_of_more(Dropped(count, of), trusted) + 1e-12


def test_where_nothing_is_wrong_next_to_nothing_is_dropped() -> None:
    rng, alarms = random.Random(0), 0
    for _ in range(2000):
        risk = rng.random()
        training, trusted = (Dropped(sum(rng.random() < risk for _ in range(of)), of) for of in (60, 90))
        alarms += chance_of_more(training, trusted) < CHANCE
    assert alarms <= 2000 * CHANCE


@pytest.mark.parametrize("budget", [100_000, 2**30], ids=["small budget", "large budget"])
@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_validation_samples_are_judged_by_the_other_problems(
    similarity: str, budget: int, make_policy: Callable[..., Policy], make_samples: Callable[..., list[Sample]]
) -> None:
    policy, samples = make_policy("gpt2", "float64"), make_samples(problems=4, seed=5)
    scorer = Scorer(policy.model, policy.tokenizer.pad_token_id, 0.7, LAYOUTS, 2048)
    measure, shares = Measure(exclude_self=True, similarity=similarity, budget=budget), [1.0] * len(samples)
    learned = [replace(s, advantage=max(s.advantage, 0.0)) for s in samples]
    validation = Validation(samples, BY_TOKEN)
    found = trusted_influences(scorer, learned, BY_TOKEN, validation, measure, shares)
    for name in {s.problem_id for s in samples}:
        others = [s for s in samples if s.problem_id != name]
        expected = influences(scorer, learned, BY_TOKEN, Validation(others, BY_TOKEN), measure).each
        size = denominator_of if similarity == "dot" else (lambda given, _: len(given))
        scale = size(others, BY_TOKEN) / size(samples, BY_TOKEN)
        for sample, x, one in zip(samples, found, expected, strict=True):
            if sample.problem_id == name:
                assert x == pytest.approx(scale * one.influence, rel=1e-8, abs=1e-14)
