"""The correction for the sampler: token weights by their formula, in the gradient of every loss, in bf16 too."""

import math
import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.mismatch import BOUND
from tasks.model.scoring.scorer import Scorer
from tasks.objective.recorded_logprobs import behaviour_logprobs, score_samples
from tasks.params.fields import SamplerCorrection
from tasks.update.compute import update_policy
from tasks.update.gradient import accumulate_gradient
from tasks.update.sampler_correction import correct_groups, token_weights
from tests.support.plain_scores import unpadded_logprobs
from tests.support.policies import MakePolicy
from tests.support.stage_params import shipped_params
from tests.support.update_params import grpo_params
from tests.support.updates import gradient_of, groups_of, weights_of

TEMPERATURE = 0.7


def recorded_by_another(policy: Policy, samples: list[Sample], noise: float = 0.5) -> list[Sample]:
    """With log-probabilities some way off the policy's own; the first has none."""
    scorer, rng = Scorer(policy.model, 0, TEMPERATURE), random.Random(1)
    own = score_samples(scorer, samples)
    rows = [[x + rng.gauss(0, noise) for x in own[s.problem_id, s.member].tolist()] for s in samples]
    return [samples[0], *(replace(s, behaviour=tuple(row)) for s, row in zip(samples[1:], rows[1:], strict=True))]


logprobs = st.lists(st.tuples(st.floats(-700, 0), st.floats(-700, 0)), min_size=1, max_size=9)


@given(logprobs)
def test_weights_are_their_formulas(pairs: list[tuple[float, float]]) -> None:
    own, recorded = [a for a, _ in pairs], [b for _, b in pairs]
    truncated, masked = (token_weights(own, recorded, kind) for kind in ("truncate", "mask"))
    for a, b, one, two in zip(own, recorded, truncated, masked, strict=True):
        ratio = math.exp(min(a - b, 600))
        assert one == pytest.approx(min(ratio, BOUND))
        assert two == pytest.approx(ratio if ratio <= BOUND else 0.0)
    assert token_weights(own, own, "mask") == token_weights(own, own, "truncate") == (1.0,) * len(own)


@pytest.mark.parametrize(
    ("correction", "loss"), [("truncate", "dapo"), ("mask", "cispo"), ("truncate", "sapo"), ("mask", "reinforce")]
)
def test_a_weight_is_a_factor_of_its_token_in_the_first_gradient(
    correction: SamplerCorrection, loss: str, policy: Policy, samples: list[Sample]
) -> None:
    """At the first step the gradient of every surrogate is -A ∇ log p."""
    rows = recorded_by_another(policy, samples)
    scorer, params = Scorer(policy.model, 0, TEMPERATURE), grpo_params(loss=loss, sampler_correction=correction)
    groups, numbers = correct_groups(scorer, groups_of(rows), correction)
    corrected = [s for g in groups for s in g.samples]
    assert 0 < numbers["sampler_correction/bounded_share"] < 0.5
    policy.model.zero_grad()
    accumulate_gradient(scorer, groups, behaviour_logprobs(scorer, corrected), None, params)
    found = gradient_of(policy)

    policy.model.zero_grad()
    by_mean = loss in ("sapo", "reinforce")
    total = torch.zeros(())
    for s in rows:
        now = unpadded_logprobs(policy.model, s, TEMPERATURE)
        weights = torch.tensor(token_weights(now.tolist(), s.behaviour, correction)) if s.behaviour else 1.0
        size = len(s.completion) if by_mean else 1
        total = total - (now * weights).sum() * s.advantage / size
    (total / sum(g.denominator for g in groups)).backward()
    expected = gradient_of(policy)
    assert (found - expected).norm() <= 1e-4 * expected.norm()


def test_none_changes_nothing_and_a_right_sampler_next_to_nothing(policy: Policy, samples: list[Sample]) -> None:
    scorer, groups = Scorer(policy.model, 0, TEMPERATURE), groups_of(samples)
    assert correct_groups(scorer, groups, "none") == (groups, {})
    assert correct_groups(scorer, groups, "mask") == (groups, {})  # nothing is recorded
    right = recorded_by_another(policy, samples, noise=0.0)
    found, numbers = correct_groups(scorer, groups_of(right), "truncate")
    assert numbers["sampler_correction/bounded_share"] == 0
    assert numbers["sampler_correction/mean_weight"] == pytest.approx(1, abs=1e-5)
    assert found[0].samples[0] == right[0]


@pytest.mark.parametrize("changes", [{}, {"bf16": True}], ids=str)
def test_each_correction_trains_another_policy_and_is_in_the_metrics(
    make_policy: MakePolicy, samples: list[Sample], changes: dict[str, Any]
) -> None:
    found = {}
    for correction in ("none", "truncate", "mask"):
        policy = make_policy()
        rows = recorded_by_another(policy, samples)
        knobs = grpo_params(sampler_correction=correction, epochs=1, **changes).model_dump()
        params = shipped_params(update=knobs, search={"temperature": TEMPERATURE})
        result = update_policy(policy, groups_of(rows), None, params, 1)
        found[correction] = weights_of(policy)
        assert ("sampler_correction/bounded_share" in result.metrics) == (correction != "none")
        starts_at_1 = correction != "none" or "bf16" in changes
        assert (result.metrics["first_ratio"] == pytest.approx(1, abs=1e-3)) == starts_at_1
    assert not torch.allclose(found["none"], found["truncate"])
    assert not torch.allclose(found["mask"], found["truncate"])
