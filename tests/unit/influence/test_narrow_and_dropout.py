"""Policies whose weights have few bits, and adapters that were trained with dropout."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tasks.influence.loss_gradients import loss_denominator, loss_gradient
from tasks.influence.sample_gradients import lora_factors
from tasks.influence.tracin import SampleInfluence, influences
from tasks.model.policy import Policy, load_policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.objective.token_weights import TokenWeights
from tests.support.plain_scores import sample_logprobs
from tests.support.validation import advantage_validation

MakePolicy = Callable[..., Policy]
MakeSamples = Callable[..., list[Sample]]

BY_TOKEN = TokenWeights("dapo", longest=64)


def scorer_of(policy: Policy) -> Scorer:
    return Scorer(policy.model, policy.tokenizer.pad_token_id, 0.7)


def found_for(policy: Policy, samples: list[Sample], others: list[Sample] | None) -> list[SampleInfluence]:
    judges = advantage_validation(others or samples, BY_TOKEN, same_batch=others is None)
    return influences(scorer_of(policy), samples, BY_TOKEN, judges).each


def test_dropout_is_off_while_influence_is_measured(
    tmp_path: Path, save_tiny: Callable[..., None], make_samples: MakeSamples
) -> None:
    samples, others = make_samples(), make_samples(seed=1)
    save_tiny(tmp_path / "policy")
    expected = found_for(load_policy(tmp_path / "policy"), samples, others)
    config = tmp_path / "policy" / "adapter" / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"lora_dropout": 0.05}))
    policy = load_policy(tmp_path / "policy")
    assert any(isinstance(module, torch.nn.Dropout) and module.p == 0.05 for module in policy.model.modules())
    for _ in range(2):
        assert found_for(policy, samples, others) == expected


def gradient(policy: Policy, samples: list[Sample], denominator: int) -> torch.Tensor:
    """Of the samples' loss, by plain autograd in the weights' bits."""
    weights = [module.weight for module in lora_factors(policy.model).values()]
    sums = sample_logprobs(policy.model, samples, 0.7).sum(1)
    loss = -(sums @ sums.new_tensor([s.advantage for s in samples])) / denominator
    return torch.cat([g.flatten().float() for g in torch.autograd.grad(loss, weights)])


@pytest.mark.parametrize("same_batch", [False, True])
def test_signs_in_bf16_are_those_of_a_loop_over_samples(
    same_batch: bool, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    """But for those of next to no influence: a cosine of less than a fiftieth."""
    policy, samples, others = make_policy(dtype="bfloat16"), make_samples(problems=8), make_samples(problems=8, seed=1)
    judges = samples if same_batch else others
    found = found_for(policy, samples, None if same_batch else others)
    direction = gradient(policy, judges, loss_denominator(judges, BY_TOKEN))
    told = 0
    for sample, one in zip(samples, found, strict=True):
        own = gradient(policy, [sample], loss_denominator(samples, BY_TOKEN))
        if abs(cosine := float(torch.cosine_similarity(own, direction, dim=0))) > 0.02:
            assert (one.influence > 0) == (cosine > 0)
            assert one.influence == pytest.approx(float(own @ direction), rel=0.2)
            told += 1
    assert told > 0.75 * len(samples)


def test_gradients_of_narrow_weights_are_added_up_in_full(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    policy, samples = make_policy(dtype="bfloat16"), make_samples()
    found = loss_gradient(scorer_of(policy), samples, BY_TOKEN)
    assert all(own.dtype == torch.float32 for own in found.values())
