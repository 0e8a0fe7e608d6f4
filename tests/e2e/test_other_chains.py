"""The real chain with full fine-tuning, and on questions with contexts, in the columns of HotpotQA."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.artifacts import digest_path, read_json, read_jsonl, read_text
from tasks.core.metrics_files import read_metrics
from tasks.records.evaluation import Attempt
from tasks.records.policy import Lineage
from tasks.records.problems import Problem
from tasks.records.selection import Selected
from tasks.trajectories import Reward, Trajectory
from tests.support.chains import retrained
from tests.support.models import save_base
from tests.support.policies import MakePolicy
from tests.support.workspace import graft, make_workspace

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
    from transformers import AutoModelForCausalLM

    whole = retrained(make_workspace(tmp_path / "project", [*SMALL, *WHOLE]))
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


PLACES = ["Paris", "Rome", "Bern", "Oslo", "Lima", "Cairo", "Quito"]
HOTPOT = [
    *["problems.source=jsonl", "problems.path=hotpot.jsonl", "policy.base=base", "policy.max_new_tokens=24"],
    *["problems.train=8", "problems.validation=4", "problems.test=6", "problems.siblings=2"],
    "policy.prompt.style=plain",
    *["policy.prompt.examples=1", "policy.prompt.file=shown.jsonl"],
    *["rewards.runs=0.5", "update.group_size=4", "search.samples=4", "search.simulations=6"],
    *["evaluation.samples=4", "evaluation.ks=[1, 2]", "machine.tracking.uri=", "rounds=1"],
]


def rows() -> Iterator[str]:
    for number in range(18):
        place = PLACES[number % len(PLACES)]
        titles = [f"Land {number}", "Sea", "Ice"]
        context = {"title": titles, "sentences": [[f"Its capital is {place}."], ["It is wet."], ["It is cold."]]}
        row = {"question": f"Capital of land {number}?", "answer": place, "level": "easy"}
        facts = {"title": titles[:1], "sent_id": [0]}
        yield json.dumps({"id": f"q{number}", "context": context, "supporting_facts": facts, **row})


def test_texts_contexts_and_fields_go_through_all_stages(tmp_path: Path, make_policy: MakePolicy) -> None:
    root = make_workspace(tmp_path / "project", HOTPOT)
    (root / "hotpot.jsonl").write_text("\n".join(rows()))
    (root / "shown.jsonl").write_text(json.dumps({"question": "Capital?", "completion": "Rome"}))
    save_base(make_policy, root / "base")
    layout = retrained(root)
    problems = read_jsonl(layout.problems("train"), Problem)
    assert {problem.evaluator for problem in problems} == {"f1"}
    assert {len(problem.siblings) for problem in problems} == {2}
    groups = read_jsonl(layout.trajectories(1), Trajectory)
    assert {group.problem_id for group in groups} >= {problem.problem_id for problem in problems}
    for group in groups:
        assert group.problem.fields["level"] == "easy"
        asked = next(p for p in problems if p.problem_id == group.problem_id) if group.split == "train" else None
        assert asked is None or group.problem.question == asked.siblings[0].question  # round 1 asks the next variant
        assert group.problem.question in group.prompt
        assert {len(m.sibling_results) for m in group.members} == {2}
    assert all(reward.terms.keys() >= {"correctness", "runs"} for reward in read_jsonl(layout.rewards(1), Reward))
    assert read_jsonl(layout.evaluation("after") / "attempts.jsonl", Attempt)
    assert read_metrics(layout, "evaluate@after")["problems"] == 6
    page = read_text(layout.page)
    assert "Capital of land" in page
    assert re.search(r"; .*level: easy.*</p>", page)
    told = graft(root, "diagnose", "--problems", "2")
    assert told.returncode == 0, told.stderr
