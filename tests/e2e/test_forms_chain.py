"""The real chain with full fine-tuning."""

from pathlib import Path

import pytest

from benchmarks.support.workspace import make_workspace
from tasks.artifacts import digest_path, read_json, read_jsonl
from tasks.core.metrics_files import read_metrics
from tasks.records import Lineage, Selected
from tests.support.chains import retrained

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SMALL = [
    *["rounds=2", "problems.train=32", "problems.validation=8", "problems.test=8", "problems.siblings=3"],
    *["bootstrap.hidden=64", "bootstrap.layers=2", "bootstrap.vocabulary=512", "bootstrap.epochs=28"],
    *["bootstrap.learning_rate=0.004", "rewards.runs=0.5", "update.negative_weight=1.0"],
    *["search.samples=6", "search.simulations=8", "search.temperature=1.0"],
    *["update.group_size=8", "update.prompts_per_step=8", "update.epochs=4", "update.beta=0.05"],
    *["evaluation.samples=2", "evaluation.ks=[1]"],
    *["machine.tracking.uri="],
]
WHOLE = ["policy.lora=null", "update.learning_rate=0.0005"]


def test_every_round_of_full_fine_tuning_moves_the_weights(tmp_path: Path) -> None:
    whole = retrained(make_workspace(tmp_path / "project", [*SMALL, *WHOLE]))
    from transformers import AutoModelForCausalLM

    lineages = [read_json(whole.policy(round) / "lineage.json", Lineage) for round in range(3)]
    assert [lineage.holds for lineage in lineages] == [["weights"]] * 3
    assert len({digest_path(whole.policy(round) / "model.safetensors") for round in range(3)}) == 3
    assert [lineage.parent for lineage in lineages[1:]] == [lineage.version for lineage in lineages[:2]]
    for round in (1, 2):
        lines = read_jsonl(whole.selection(round), Selected)
        assert any(line.selected for line in lines)
        assert {line.influence for line in lines} == {None}
        assert read_metrics(whole, f"update@{round}")["first_ratio"] == pytest.approx(1, abs=1e-4)
    assert read_metrics(whole, "update@2")["kl"] > 0
    loaded = AutoModelForCausalLM.from_pretrained(whole.policy(2))
    assert loaded.num_parameters() == read_metrics(whole, "bootstrap")["parameters"]
