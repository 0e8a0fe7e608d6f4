"""The manual loss, -A · mean log p + beta · mean(log p - log ref), against the same written out with autograd."""

import json
from typing import Any

import pytest
import torch

from flows.cli.presets import preset
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.objective.recorded_logprobs import Logprobs, sample_key, score_samples
from tasks.update.gradient import TokenSums, accumulate_gradient
from tasks.update.step_plan import UpdateGroup
from tests.support.plain_scores import unpadded_logprobs
from tests.support.stage_params import SHIPPED
from tests.support.update_params import MANUAL, grpo_params
from tests.support.updates import gradient_of, reference_scores

TEMPERATURE, BETA = 0.7, 0.1


def step(
    policy: Policy, samples: list[Sample], scores: tuple[Logprobs, Logprobs], **changes: Any
) -> tuple[torch.Tensor, TokenSums]:
    """Gradient and sums of one step of all samples; `scores` of behaviour policy and reference."""
    policy.model.zero_grad()
    params = grpo_params(**MANUAL | {"beta": BETA} | changes)
    scorer = Scorer(policy.model, policy.tokenizer.pad_token_id, TEMPERATURE)
    sums = accumulate_gradient(scorer, [UpdateGroup("all", samples, len(samples))], *scores, params)
    return gradient_of(policy), sums


def scores_of(policy: Policy, samples: list[Sample]) -> tuple[Logprobs, Logprobs]:
    """By the policy itself and by its reference, the adapter switched off."""
    scorer = Scorer(policy.model, policy.tokenizer.pad_token_id, TEMPERATURE)
    reference = reference_scores(scorer, samples)
    return score_samples(scorer, samples), reference


@pytest.mark.parametrize("beta", [0.0, BETA])
def test_value_and_gradient_are_those_of_autograd(policy: Policy, samples: list[Sample], beta: float) -> None:
    """Also where the behaviour policy is another one: no ratio enters."""
    own, reference = scores_of(policy, samples)
    far = {key: row - 0.5 for key, row in own.items()}
    terms = []
    for one in samples:
        logprobs = unpadded_logprobs(policy.model, one, TEMPERATURE)
        kl = (logprobs - reference[sample_key(one)]).mean()
        terms.append(-one.advantage * logprobs.mean() + beta * kl)
    policy.model.zero_grad()
    loss = torch.stack(terms).mean()
    loss.backward()
    expected = gradient_of(policy).clone()
    for behaviour in (own, far):
        gradient, sums = step(policy, samples, (behaviour, reference), beta=beta)
        assert sums.loss == pytest.approx(float(loss.detach()), abs=1e-5)
        assert (gradient - expected).norm() <= 1e-5 * expected.norm()


def test_the_preset_is_this_loss() -> None:
    given = dict(assignment.split("=") for assignment in preset("manual"))
    for name, value in MANUAL.items():
        assert json.loads(given[f"update.{name}"]) == value
        assert hasattr(SHIPPED.update, name)
