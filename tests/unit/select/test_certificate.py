"""The certificate holds where influence is right and fails where it is wrong."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import pytest
import torch

from tasks.errors import GraftError
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.objective.token_weights import TokenWeights
from tasks.params.fields import Loss
from tasks.select import certificate, gradient_passes, tracin
from tasks.select.certificate import Certificate, certify, random_weights
from tasks.select.sample_gradients import products
from tasks.select.tracin import validation_gradient
from tests.support.influence import BY_TOKEN, certificate_of, products_of, scorer_of
from tests.support.policies import MakePolicy, MakeSamples
from tests.support.update_params import grpo_params
from tests.support.validation import advantage_validation


def certified(
    policy: Policy, make_samples: MakeSamples, averaging: TokenWeights = BY_TOKEN, then: Callable[[], Any] = dict
) -> Certificate:
    scorer, training = scorer_of(policy), make_samples(problems=8, seed=1)
    validation = advantage_validation(make_samples(problems=16, seed=2))
    products = products_of(scorer, training, validation, averaging)
    then()
    return certificate_of(scorer, training, products, validation, averaging.loss)


@pytest.mark.parametrize(
    ("kind", "dtype", "loss"),
    [("gpt2", "float64", "dapo"), ("qwen2", "float32", "grpo"), ("llama", "float32", "dr_grpo")],
)
def test_a_step_does_what_influence_predicts(
    kind: str, dtype: str, loss: Loss, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    found = certified(make_policy(kind, dtype), make_samples, TokenWeights(loss, longest=64))
    assert found.slope == pytest.approx(-1, abs=0.001 if dtype == "float64" else 0.02)
    assert (found.sign_agreement, found.steps) == (1.0, 2)
    found.check()


@pytest.mark.filterwarnings("error:Converting a tensor")
def test_the_policy_keeps_every_bit(policy: Policy, make_samples: MakeSamples) -> None:
    before = {name: value.clone() for name, value in policy.model.state_dict().items()}
    certified(policy, make_samples)
    assert all(torch.equal(value, before[name]) for name, value in policy.model.state_dict().items())
    assert all(weight.grad is None for weight in policy.model.parameters())


def wrong_sign(scores: Any, direction: Any) -> Any:
    return -products(scores, direction)


def objective_for_loss(*given: Any) -> Any:
    return {name: -value for name, value in validation_gradient(*given).items()}


def wrong_mask(own: gradient_passes.GradientPasses, batch: Any) -> Any:
    """Without each completion's first token."""
    return own._scorer.score(batch).logprobs[:, 1:].sum(1)


PLANTED = {
    "a sign error": (tracin, "products", wrong_sign),
    "an objective for a loss": (tracin, "validation_gradient", objective_for_loss),
    "a wrong mask": (gradient_passes.GradientPasses, "_values", wrong_mask),
}


@pytest.mark.parametrize("fault", [*PLANTED, "a stale policy"])
def test_a_planted_fault_is_caught(fault: str, policy: Policy, make_samples: MakeSamples) -> None:
    def update() -> None:
        with torch.no_grad():
            for name, weight in policy.model.named_parameters():
                if "lora_" in name:
                    weight += torch.randn(weight.shape, generator=torch.Generator().manual_seed(len(name))) * 0.3

    stale = fault == "a stale policy"
    with nullcontext() if stale else patch.object(*PLANTED[fault]):
        found = certified(policy, make_samples, then=update if stale else dict)
    with pytest.raises(GraftError, match=r"cannot be trusted to select; set influence\.selection to none"):
        found.check()


def test_random_weights_leave_a_sum_that_can_be_measured() -> None:
    """Where the errors of two samples cancel in the sum of the signs, they do not in that of random weights."""
    influences = [0.5, -0.2, 0.1, 0.4, -0.3]
    for seed in range(20):
        weights = random_weights(influences, seed)
        assert set(weights) <= {1.0, -1.0}
        assert sum(w * x for w, x in zip(weights, influences, strict=True)) >= math.hypot(*influences)
    wrong = [0.6, -0.2, 0.0, 0.4, -0.3]  # the same sum of absolute values
    sums = {round(sum(w * (x - y) for w, x, y in zip(random_weights(influences, s), influences, wrong, strict=True)), 9)
            for s in range(20)}  # fmt: skip
    assert sums - {0.0}


def test_without_influence_no_step_is_tried(policy: Policy, samples: list[Sample]) -> None:
    validation = advantage_validation(samples)
    found = certify(scorer_of(policy), samples, [0.0] * len(samples), validation, grpo_params(), 64, seed=0)
    assert (found.steps, found.draws) == (0, 0)
    found.check()


@pytest.mark.parametrize(
    ("kind", "dtype", "lengths", "steps"),
    [("qwen2", "float32", [1e-9], 0), ("qwen2", "float32", [1e-9, 1e-3], 2), ("gpt2", "float64", [1e-9], 2)],
)
def test_a_step_that_drowns_in_rounding_is_taken_longer_or_ignored(
    kind: str, dtype: str, lengths: list[float], steps: int, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    with patch.object(certificate, "STEP_LENGTHS", lengths):
        found = certified(make_policy(kind, dtype), make_samples)
    assert found.steps == steps
    if not steps:
        with pytest.raises(GraftError, match=r"no small step changes .* or set influence\.selection to none\Z"):
            found.check()
    assert not steps or found.slope == pytest.approx(-1, abs=0.001 if dtype == "float64" else 0.02)
