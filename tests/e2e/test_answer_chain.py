"""The real chain in the environment `answer`, and in one of the user's own."""

from pathlib import Path

import pytest

from benchmarks.support.sums import write_sums
from benchmarks.support.workspace import graft, make_workspace
from tasks.artifacts import read_jsonl, read_text
from tasks.core.metrics_files import read_metrics
from tasks.environments.tags import hard_format, mark
from tasks.layout import Layout
from tasks.trajectories import Trajectory, read_rewarded

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SMALL = [
    *["problems.source=jsonl", "problems.path=sums.jsonl"],
    *["problems.train=60", "problems.validation=16", "problems.test=20"],
    *["bootstrap.hidden=64", "bootstrap.layers=2", "bootstrap.vocabulary=400", "bootstrap.epochs=12"],
    *["bootstrap.learning_rate=0.004", "policy.max_new_tokens=48"],
    *["influence.selection=positive", "influence.completions=4", "update.epochs=3"],
    *["evaluation.samples=10", "evaluation.ks=[1, 5]"],
    *["machine.tracking.uri="],
]


def retrained(root: Path, *assignments: str) -> Layout:
    write_sums(root / "sums.jsonl", 96, siblings=3, seed=0)
    ended = graft(root, "retrain", *(part for each in assignments for part in ("-S", each)))
    assert (ended.returncode, ended.stderr) == (0, ""), f"{ended.stdout}\n{ended.stderr}"
    return Layout(root)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Two rounds from scratch."""
    root = make_workspace(tmp_path_factory.mktemp("answers") / "project", [*SMALL, "rounds=2"])
    return retrained(root, "environment=answer")


def test_groups_are_sampled_and_no_tree_is_searched(answers: Layout) -> None:
    for trajectory in read_jsonl(answers.trajectories(1), Trajectory):
        assert {member.proposer for member in trajectory.members} == {"sample"}
        assert len(trajectory.members) == (12 if trajectory.split == "train" else 4)
        assert trajectory.problem.siblings == []


def test_rewards_are_right_answers_and_the_form(answers: Layout) -> None:
    for trajectory, rewards in read_rewarded(answers.trajectories(2)):
        for member, reward in zip(trajectory.members, rewards, strict=True):
            right = member.result.status == "ok" and member.result.value == trajectory.problem.answer
            form = {"hard_format": hard_format(member.code), "mark": mark(member.code)}
            assert reward.terms == {"correctness": float(right), **form}
            assert reward.reward == pytest.approx(float(right) + 0.5 * sum(form.values()))


def test_the_form_is_learnt(answers: Layout) -> None:
    first, last = (read_metrics(answers, f"reward@{round}") for round in (1, 2))
    assert 0 < first["hard_format/mean"] < last["hard_format/mean"]
    assert 0 < first["mark/mean"] < last["mark/mean"]
    assert first["hard_format/std"] > 0


def test_a_step_of_it_can_be_looked_at_and_its_page_shows_the_form(answers: Layout) -> None:
    told = graft(answers.root, "diagnose", "--problems", "2")
    assert told.returncode == 0, told.stderr
    assert "hard_format" in told.stdout
    page = read_text(answers.page)
    assert "hard_format" in page
    assert "&lt;think&gt;" in page
    assert "<think>" not in page
