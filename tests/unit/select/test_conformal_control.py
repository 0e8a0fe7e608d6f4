"""Which training samples fare worse than samples whose rewards are right."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.select import gradient_passes as passes
from tasks.select.conformal_control import (
    FALSE_DISCOVERY_RATE,
    calibration_influences,
    rejection_threshold,
    shift_by_threshold,
)
from tasks.select.tracin import Measure, SampleInfluence, cache_validation_gradients
from tests.support.influence import BY_TOKEN, scorer_of
from tests.support.policies import MakeSamples
from tests.support.validation import advantage_validation

TRUSTED = [float(x) for x in range(100)]


@pytest.mark.parametrize(
    ("training", "trusted", "line"),
    [
        ([-3.0, -1.0, -2.0], TRUSTED, -1.0),
        ([-3.0, 50.0, 51.0], TRUSTED, -3.0),  # 1 of 101 at or below it, three were tried: 3/101 is little enough
        ([9.0, 70.0, 80.0, 90.0], TRUSTED, None),  # 11 of 101 are; of four that is no wonder
        ([-1.0, -2.0, 9.0, 99.0], TRUSTED, 9.0),  # three of four at or below it, expected were 4 · 11/101 < 3/3
        (TRUSTED, TRUSTED, None),
        ([-1.0] * 9, [0.0], None),  # one alone proves nothing: it is the lowest of two half of the time
        ([-1.0], [], None),
        ([], TRUSTED, None),
    ],
)
def test_the_fault_line_lies_where_as_many_are_expected_by_chance(
    training: list[float], trusted: list[float], line: float | None
) -> None:
    assert rejection_threshold(training, trusted) == line


FLOATS = st.lists(st.floats(-1, 1), min_size=1, max_size=30)


@given(FLOATS, st.lists(st.floats(-1, 1), max_size=30))
def test_it_is_benjamini_and_hochbergs(training: list[float], trusted: list[float]) -> None:
    """Written out: the highest x at or below which so many lie that the expected number of right ones is a share."""
    found = []
    for x in training:
        p = (1 + sum(other <= x for other in trusted)) / (1 + len(trusted))
        if p * len(training) <= FALSE_DISCOVERY_RATE * sum(other <= x for other in training) * (1 + 1e-12):
            found.append(x)
    assert rejection_threshold(training, trusted) == (max(found, default=None) if trusted else None)


def test_where_rewards_are_right_few_rounds_lose_any_and_where_they_err_most_that_do_are_lost() -> None:
    """Problems have a level of their own, which all their samples share: those are not independent."""
    rng = random.Random(0)

    def draws(problems: int, size: int, shift: float = 0.0) -> list[float]:
        levels = [rng.gauss(shift, 0.7) for _ in range(problems)]
        return [rng.gauss(level, 0.7) for level in levels for _ in range(size)]

    lost = mistaken = caught = 0
    for _ in range(200):
        trusted = draws(60, 4)
        lost += rejection_threshold(draws(40, 3), trusted) is not None
        right, wrong = draws(30, 3), draws(10, 3, -3)
        line = rejection_threshold(right + wrong, trusted)
        assert line is not None
        caught += sum(x <= line for x in wrong)
        mistaken += sum(x <= line for x in right)
    assert lost <= 200 * FALSE_DISCOVERY_RATE
    assert caught >= 0.7 * 200 * 30
    assert mistaken <= FALSE_DISCOVERY_RATE * (mistaken + caught)


def sample(problem: str, advantage: float) -> Sample:
    return Sample(problem, 0, (1,), (2,), (), advantage)


def scored(*influences: float) -> list[SampleInfluence]:
    return [SampleInfluence(x, 0.0, 1.0) for x in influences]


def test_influence_counts_from_the_fault_line() -> None:
    samples = [sample("a", 1.0), sample("b", 1.0), sample("c", 0.0)]
    judges = [sample("v", 1.0)] * 9 + [sample("v", 0.0)]
    trusted = scored(*range(9), -100.0)  # the last one without a signal: not heard
    assert shift_by_threshold(samples, scored(-4.0, 5.0, 0.0), judges, trusted) == [0.0, 9.0, 4.0]
    assert shift_by_threshold(samples[1:], scored(5.0, 0.0), judges, trusted) is None


def test_what_lowers_the_loss_is_not_dropped_however_unlike_validations_own() -> None:
    samples, theirs = [sample("a", 1.0)] * 3, [sample("v", 1.0)] * 10
    found = scored(5.0, 0.0, -1.0)
    assert shift_by_threshold(samples, found, theirs, scored(*range(10, 20))) == [5.0, 0.0, -1.0]


def test_control_needs_no_gradient_that_was_not_made_before(
    exact: Policy, make_samples: MakeSamples, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer, samples = scorer_of(exact), make_samples(problems=4, seed=5)
    validation, measure = advantage_validation(samples), Measure(similarity="local")
    given = (scorer, BY_TOKEN, validation, measure, [1.0] * len(samples), samples)
    expected = calibration_influences(*given)
    judges = cache_validation_gradients(scorer, validation, measure.budget)
    monkeypatch.setattr(passes, "collect_gradients", None)
    monkeypatch.setattr(passes, "stream_gradients", None)
    for ours, theirs in zip(calibration_influences(*given, judges), expected, strict=True):
        assert (ours.influence, ours.product) == pytest.approx((theirs.influence, theirs.product), rel=1e-9, abs=1e-15)
