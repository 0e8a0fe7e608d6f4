"""Adapters that were trained with dropout."""

import json
from collections.abc import Callable
from pathlib import Path

import torch

from tasks.model.policy import load_policy
from tasks.model.sample import Sample
from tests.support.influence import measured, scorer_of


def test_dropout_is_off_while_influence_is_measured(
    tmp_path: Path, save_tiny: Callable[..., None], samples: list[Sample], others: list[Sample]
) -> None:
    save_tiny(tmp_path / "policy")
    expected = measured(scorer_of(load_policy(tmp_path / "policy")), samples, others).samples
    config = tmp_path / "policy" / "adapter" / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"lora_dropout": 0.05}))
    policy = load_policy(tmp_path / "policy")
    assert any(isinstance(module, torch.nn.Dropout) and module.p == 0.05 for module in policy.model.modules())
    for _ in range(2):
        assert measured(scorer_of(policy), samples, others).samples == expected
