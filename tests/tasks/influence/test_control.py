"""Whether there is more to drop than is dropped where nothing is wrong."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.influence.control import CHANCE, chance_of_more, dropped, trusted_influences
from tasks.influence.influence import Measure, influences
from tasks.influence.losses import Validation, denominator_of
from tasks.policy.averaging import Averaging
from tasks.policy.base import Policy
from tasks.policy.samples import Sample
from tasks.policy.scorer import LAYOUTS, Scorer

BY_TOKEN = Averaging("dapo", longest=64)


def sample(problem: str, advantage: float) -> Sample:
    return Sample(problem, 0, (1,), (2,), (), advantage)


def test_what_is_dropped_is_counted_of_each_problems_samples_with_a_signal() -> None:
    samples = [sample("a", 1.0), sample("a", -1.0), sample("a", 0.0), sample("b", 0.5), sample("c", 0.0)]
    assert dropped(samples, [0.7, 0.0, 0.0, 1.0, 0.0]) == [0.5, 0.0]
    assert dropped(samples[-1:], [0.0]) == []


@pytest.mark.parametrize(
    ("training", "trusted", "chance"),
    [
        ([0.8, 0.9, 1.0], [0.1, 0.2, 0.3], 1 / 20),  # one order of twenty
        ([0.1, 0.2, 0.3], [0.8, 0.9, 1.0], 1.0),
        ([0.5, 0.9], [0.1, 0.6, 0.7], 4 / 10),
        ([0.5] * 5, [0.5] * 9, 1.0),
        ([1.0], [], 1.0),  # nothing to compare with
        ([], [1.0], 1.0),
    ],
)
def test_chance_is_the_share_of_orders(training: list[float], trusted: list[float], chance: float) -> None:
    assert chance_of_more(training, trusted) == pytest.approx(chance, rel=1e-12)


SHARES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=20)


@given(SHARES, SHARES)
def test_the_more_is_dropped_the_less_it_is_chance(training: list[float], trusted: list[float]) -> None:
    """Shares that move up as a whole; of equal size, so that ties weigh the same."""
    if len({*training, *trusted}) > 1:
        more = [share + 2 for share in training]
        assert chance_of_more(more, trusted) <= chance_of_more(training, trusted) + 1e-12


def test_where_nothing_is_wrong_hardly_more_rounds_than_said_find_fault() -> None:
    """Problems with a risk of their own, which all their samples share: those are not independent."""
    rng, alarms = random.Random(0), 0

    def shares(problems: int, size: int) -> list[float]:
        risks = [rng.random() ** 2 for _ in range(problems)]
        return [sum(rng.random() < risk for _ in range(size)) / size for risk in risks]

    for _ in range(2000):
        alarms += chance_of_more(shares(40, 3), shares(60, 3)) < CHANCE
    expected = 2000 * CHANCE
    assert alarms <= expected + 3 * expected**0.5


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
