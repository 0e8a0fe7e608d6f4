"""The real chain in the environment `answer`, with algorithm ppo and a selection by influence."""

import csv
import json
from pathlib import Path
from random import Random
from statistics import fmean

import pytest
from safetensors.torch import load_file

from tasks.artifacts import read_jsonl, read_text
from tasks.core.metrics_files import read_metrics
from tasks.environments.tags import hard_format, mark
from tasks.layout import Layout
from tasks.records.selection import Selected
from tasks.trajectories import Trajectory
from tests.support.chains import retrained
from tests.support.groups import read_rewarded
from tests.support.workspace import make_workspace

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SMALL = [
    *["environment=answer", "problems.source=jsonl", "problems.path=sums.jsonl", "rounds=2"],
    *["problems.train=60", "problems.validation=16", "problems.test=4"],
    *["bootstrap.hidden=64", "bootstrap.layers=2", "bootstrap.vocabulary=400", "bootstrap.epochs=12"],
    *["bootstrap.learning_rate=0.004", "policy.max_new_tokens=48"],
    *["algorithm=ppo", "influence.similarity=dot", "influence.n=8", "update.epochs=8"],
    *["influence.selection=positive", "influence.fdr_control=false", "influence.completions=4"],
    *["evaluation.samples=2", "evaluation.ks=[1]"],
    *["machine.tracking.uri=", "machine.contract.action=none"],  # sums of two numbers nearly repeat each other
]


def write_sums(path: Path) -> None:
    """80 problems with 3 siblings each, which a policy of a million parameters can answer; no question twice."""
    pairs = Random(0).sample([(a, b) for a in range(2, 31) for b in range(2, 31)], 320)
    asked = [
        {"question": f"Ada has {a} pens and buys {b} more. How many are there?", "answer": a + b} for a, b in pairs
    ]
    lines = [asked[n] | {"siblings": asked[n + 1 : n + 4]} for n in range(0, len(asked), 4)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Two rounds from scratch."""
    root = make_workspace(tmp_path_factory.mktemp("answers") / "project", SMALL)
    write_sums(root / "sums.jsonl")
    return retrained(root)


def test_groups_are_sampled_and_no_tree_is_searched(answers: Layout) -> None:
    held_out = read_jsonl(answers.trajectories(1, "validation"), Trajectory)
    assert held_out
    for trajectory in (*read_jsonl(answers.trajectories(1), Trajectory), *held_out):
        assert {member.proposer for member in trajectory.members} == {"sample"}
        assert len(trajectory.members) == (12 if trajectory.split == "train" else 4)
        assert trajectory.problem.siblings == []


def test_rewards_are_right_answers_and_the_form(answers: Layout) -> None:
    for trajectory, rewards in read_rewarded(answers.trajectories(2)):
        for member, reward in zip(trajectory.members, rewards, strict=True):
            right = member.result.status == "ok" and member.result.value == trajectory.problem.answer
            form = {"hard_format": hard_format(member.code), "mark": mark(member.code)}
            assert reward.terms == {"correctness": float(right), **form}
            assert reward.reward == pytest.approx(float(right) + sum(form.values()))


def test_the_form_is_learnt_and_selection_has_its_certificate(answers: Layout) -> None:
    first, last = (read_metrics(answers, f"reward@{round}") for round in (1, 2))
    assert 0 < first["hard_format/mean"] < last["hard_format/mean"]
    assert 0 < first["mark/mean"] < last["mark/mean"]
    assert read_metrics(answers, "select@1")["certificate_slope"] == pytest.approx(-1, abs=0.05)
    assert {line.selected for line in read_jsonl(answers.selection(1), Selected)} == {True, False}


def test_the_value_head_is_in_the_folder_of_each_rounds_policy(answers: Layout) -> None:
    assert not answers.value_head(0).exists()
    first, second = (load_file(answers.value_head(round)) for round in (1, 2))
    assert first.keys() == second.keys() == {"weight", "bias"}
    assert not (first["weight"] == second["weight"]).all()
    assert (answers.run_policy / "value_head.safetensors").exists()


def by_epoch(layout: Layout, round: int, name: str) -> list[float]:
    rows = list(csv.DictReader(layout.steps(round).read_text().splitlines()))
    epochs = sorted({int(row["epoch"]) for row in rows})
    return [fmean(float(row[name]) for row in rows if int(row["epoch"]) == epoch) for epoch in epochs]


def test_the_values_explain_more_and_more_of_the_returns(answers: Layout) -> None:
    explained = by_epoch(answers, 1, "explained_variance")
    assert explained[-1] > max(explained[0], 0.03)
    assert abs(by_epoch(answers, 1, "value")[0]) < abs(by_epoch(answers, 2, "value")[0])  # the head was carried


def test_the_page_shows_the_form_and_the_explained_variance(answers: Layout) -> None:
    page = read_text(answers.page)
    assert "hard_format" in page
    assert "&lt;think&gt;" in page
    assert "<think>" not in page
    assert "that the values explain" in page
