"""Policies whose weights have few bits, and adapters that were trained with dropout."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tasks.model.policy import load_policy
from tasks.model.sample import Sample
from tasks.select.losses import loss_denominator
from tests.support.influence import BY_TOKEN, gradient_of, loss_of, measured, scorer_of
from tests.support.policies import MakePolicy, MakeSamples


def test_dropout_is_off_while_influence_is_measured(
    tmp_path: Path, save_tiny: Callable[..., None], samples: list[Sample], others: list[Sample]
) -> None:
    save_tiny(tmp_path / "policy")
    expected = measured(scorer_of(load_policy(tmp_path / "policy")), samples, others).each
    config = tmp_path / "policy" / "adapter" / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"lora_dropout": 0.05}))
    policy = load_policy(tmp_path / "policy")
    assert any(isinstance(module, torch.nn.Dropout) and module.p == 0.05 for module in policy.model.modules())
    for _ in range(2):
        assert measured(scorer_of(policy), samples, others).each == expected


def test_signs_in_bf16_are_those_of_a_loop_over_samples(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    """Except where influence is nearly 0: a cosine of less than a fiftieth."""
    policy, samples, others = make_policy(dtype="bfloat16"), make_samples(problems=8), make_samples(problems=8, seed=1)

    def gradient(own: list[Sample], batch: list[Sample]) -> torch.Tensor:
        return gradient_of(policy, loss_of(policy, own, loss_denominator(batch, BY_TOKEN))).float()

    direction, compared = gradient(others, others), 0
    for sample, one in zip(samples, measured(scorer_of(policy), samples, others).each, strict=True):
        own = gradient([sample], samples)
        if abs(cosine := float(torch.cosine_similarity(own, direction, dim=0))) > 0.02:
            assert (one.influence > 0) == (cosine > 0)
            assert one.influence == pytest.approx(float(own @ direction), rel=0.2)
            compared += 1
    assert compared >= 2 * len(samples) / 3
