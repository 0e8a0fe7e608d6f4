"""The posterior of a problem's success rate against numerical integration, and the chance that it is searched."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.records import SearchOutcome
from tasks.search.curriculum import (
    BetaPosterior,
    success_posterior,
)

SHARES = st.floats(0, 1)


@st.composite
def outcomes(draw: st.DrawFn) -> list[SearchOutcome]:
    """Of one problem, in some of the rounds 1 to 6, in any order."""
    found = []
    for round in draw(st.lists(st.integers(1, 6), unique=True)):
        samples = draw(st.integers(0, 12))
        right = draw(st.integers(0, samples))
        found.append(
            SearchOutcome(problem_id="p", round=round, samples=samples, right=right, signal=draw(st.booleans()))
        )
    return found


@given(outcomes())
def test_with_discount_1_it_is_bayes_rule_for_a_uniform_prior(found: list[SearchOutcome]) -> None:
    right, samples = sum(o.right for o in found), sum(o.samples for o in found)
    rate = (np.arange(20_000) + 0.5) / 20_000
    likelihood = rate**right * (1 - rate) ** (samples - right)
    mean = (rate * likelihood).sum() / likelihood.sum()
    posterior = success_posterior(found, 1.0, 7)
    assert posterior.alpha / (posterior.alpha + posterior.beta) == pytest.approx(mean, rel=1e-6)


@given(outcomes(), SHARES)
def test_a_round_later_the_evidence_counts_less_by_the_discount(found: list[SearchOutcome], discount: float) -> None:
    now, later = (success_posterior(found, discount, round) for round in (7, 8))
    assert later.alpha - 1 == pytest.approx(discount * (now.alpha - 1))
    assert later.beta - 1 == pytest.approx(discount * (now.beta - 1))


@given(outcomes())
def test_with_discount_0_nothing_is_known(found: list[SearchOutcome]) -> None:
    assert success_posterior(found, 0.0, 7) == BetaPosterior()
