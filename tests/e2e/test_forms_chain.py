"""The real chain with full fine-tuning, and a second one that starts from the policy which it left."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.workspace import make_workspace
from tasks.artifacts import digest_path, read_json, read_jsonl
from tasks.core.metrics_files import read_metrics
from tasks.layout import Layout
from tasks.records import Lineage, Selected
from tasks.trajectories import Trajectory
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
LORA = ["policy.lora={rank: 4, alpha: 8, targets: [q_proj, v_proj]}", "influence.selection=positive"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A run from scratch in which all weights are trained."""
    return retrained(make_workspace(tmp_path_factory.mktemp("forms") / "project", [*SMALL, *WHOLE]))


def lineages(layout: Layout, rounds: int) -> list[Lineage]:
    return [read_json(layout.policy(round) / "lineage.json", Lineage) for round in range(rounds + 1)]


def plainly_loaded(folder: Path) -> Any:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder)
    return PeftModel.from_pretrained(model, folder / "adapter") if (folder / "adapter").exists() else model


def test_every_round_of_full_fine_tuning_moves_the_weights(whole: Layout) -> None:
    assert [lineage.holds for lineage in lineages(whole, 2)] == [["weights"]] * 3
    assert len({digest_path(whole.policy(round) / "model.safetensors") for round in range(3)}) == 3
    assert [lineage.parent for lineage in lineages(whole, 2)][1:] == [each.version for each in lineages(whole, 1)]
    for round in (1, 2):
        lines = read_jsonl(whole.selection(round), Selected)
        assert any(line.selected for line in lines)
        assert {line.influence for line in lines} == {None}
        assert read_metrics(whole, f"update@{round}")["first_ratio"] == pytest.approx(1, abs=1e-4)
    assert read_metrics(whole, "update@2")["kl"] > 0
    assert plainly_loaded(whole.policy(2)).num_parameters() == read_metrics(whole, "bootstrap")["parameters"]


@pytest.mark.nightly
def test_a_run_continues_the_policy_of_an_earlier_one_as_that_was_made(whole: Layout, tmp_path: Path) -> None:
    """With an adapter on it this time, then once more with that adapter; asked as a policy from scratch is."""
    root = make_workspace(tmp_path / "project", [*SMALL, "rounds=1"])
    shutil.copytree(whole.policy(2), root / "earlier")
    layout = retrained(root, "policy.base=earlier", *LORA)
    parent = read_json(root / "earlier" / "lineage.json", Lineage).version
    assert lineages(layout, 1)[0].parent == parent
    assert {(lineage.base, *lineage.holds) for lineage in lineages(layout, 1)} == {("scratch", "weights", "adapter")}
    weights = {digest_path(layout.policy(round) / "model.safetensors") for round in range(2)}
    assert weights == {digest_path(root / "earlier" / "model.safetensors")}
    for trajectory in read_jsonl(layout.trajectories(1), Trajectory):
        assert trajectory.prompt == f"{trajectory.problem.question}\n"
    shutil.rmtree(root / "earlier")
    shutil.copytree(layout.policy(1), root / "earlier")
    adapters = [digest_path(layout.policy(round) / "adapter") for round in range(2)]
    assert len(set(adapters)) == 2
    retrained(root)
    assert digest_path(layout.policy(0) / "adapter") == adapters[1]
    assert read_metrics(layout, "update@1")["first_ratio"] == pytest.approx(1, abs=1e-4)
    assert lineages(layout, 1)[0].parent == read_json(root / "earlier" / "lineage.json", Lineage).version
