"""The real chain on questions with contexts, in the columns of HotpotQA."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.support.workspace import graft, make_workspace
from tasks.artifacts import read_jsonl, read_text
from tasks.core.metrics_files import read_metrics
from tasks.records import Attempt, Problem
from tasks.trajectories import Reward, Trajectory
from tests.support.chains import retrained
from tests.support.models import save_base
from tests.support.policies import MakePolicy

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PLACES = ["Paris", "Rome", "Bern", "Oslo", "Lima", "Cairo", "Quito"]
SMALL = [
    *["problems.source=jsonl", "problems.path=hotpot.jsonl", "policy.base=base", "policy.max_new_tokens=24"],
    *["problems.train=8", "problems.validation=4", "problems.test=6", "problems.siblings=2"],
    "policy.prompt.style=plain",
    *["policy.prompt.examples=1", "policy.prompt.file=shown.jsonl"],
    *["rewards.runs=0.5", "update.group_size=4", "search.samples=4", "search.simulations=6"],
    *["evaluation.samples=4", "evaluation.ks=[1, 2]", "machine.tracking.uri=", "rounds=1"],
]


def lines() -> Iterator[str]:
    for number in range(18):
        place = PLACES[number % len(PLACES)]
        titles = [f"Land {number}", "Sea", "Ice"]
        context = {"title": titles, "sentences": [[f"Its capital is {place}."], ["It is wet."], ["It is cold."]]}
        row = {"question": f"Capital of land {number}?", "answer": place, "level": "easy"}
        facts = {"title": titles[:1], "sent_id": [0]}
        yield json.dumps({"id": f"q{number}", "context": context, "supporting_facts": facts, **row})


def test_texts_contexts_and_fields_go_through_all_stages(tmp_path: Path, make_policy: MakePolicy) -> None:
    root = make_workspace(tmp_path / "project", SMALL)
    (root / "hotpot.jsonl").write_text("\n".join(lines()))
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
