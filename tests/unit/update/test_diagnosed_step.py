"""Influence and the update see the same step, whatever the loss: at ratio 1 their gradients are equal."""

import pytest
import torch

from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.objective.recorded_logprobs import score_samples
from tasks.objective.token_weights import TokenWeights
from tasks.params.fields import Loss
from tasks.select.tracin import influences
from tasks.update.gradient import accumulate_gradient
from tasks.update.step_plan import UpdateGroup
from tests.support.update_params import grpo_params
from tests.support.validation import advantage_validation

LONGEST = 64


@pytest.mark.parametrize("importance", ["token", "sequence"])
@pytest.mark.parametrize("loss", ["dapo", "grpo", "dr_grpo", "cispo", "sapo", "reinforce"])
def test_the_gradient_that_influence_sums_is_the_one_that_the_update_takes(
    loss: str, importance: str, policy: Policy, samples: list[Sample]
) -> None:
    params = grpo_params(loss=loss, importance=importance)
    averaging = TokenWeights(params.loss, LONGEST)
    scorer = Scorer(policy.model, policy.tokenizer.pad_token_id, 0.7)
    behaviour = score_samples(scorer, samples)
    group = UpdateGroup("all", samples, averaging.denominator([len(s.completion) for s in samples]))
    accumulate_gradient(scorer, [group], behaviour, None, params)
    summed = influences(scorer, samples, averaging, advantage_validation(samples)).train_gradient
    taken = {name: p.grad for name, p in policy.model.named_parameters() if p.grad is not None}
    ours, expected = (torch.cat([by_name[name].flatten() for name in sorted(by_name)]) for by_name in (taken, summed))
    assert (ours - expected).norm() <= 1e-5 * expected.norm()


@pytest.mark.parametrize(
    ("loss", "expected"), [("dapo", 12), ("grpo", 3), ("sapo", 3), ("reinforce", 3), ("dr_grpo", 192)]
)
def test_the_denominator_of_completions_of_3_4_and_5_tokens(loss: Loss, expected: int) -> None:
    averaging = TokenWeights(loss, LONGEST)
    assert averaging.denominator([3, 4, 5]) == expected
    assert averaging.weight(4) == (0.25 if loss in ("grpo", "sapo", "reinforce") else 1)
