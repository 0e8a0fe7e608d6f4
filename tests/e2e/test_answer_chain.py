"""The real chain in the environment `answer`, and in one of the user's own."""

import re
from pathlib import Path

import pytest

from benchmarks.support.sums import write_sums
from benchmarks.support.workspace import graft, make_workspace
from tasks.artifacts import read_jsonl, read_text
from tasks.core.metrics_files import read_metrics
from tasks.environments.tags import hard_format, mark
from tasks.layout import Layout
from tasks.records import Attempt, ProblemOutcome, RewardedTrajectory, Selected, Workflow

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
    for trajectory in read_jsonl(answers.rewarded(1), RewardedTrajectory):
        assert set(trajectory.proposers) == {"sample"}
        assert len(trajectory.workflow_codes) == (12 if trajectory.split == "train" else 4)
        assert trajectory.problem.siblings == []


def test_rewards_are_right_answers_and_the_form(answers: Layout) -> None:
    for trajectory in read_jsonl(answers.rewarded(2), RewardedTrajectory):
        terms = trajectory.reward_terms
        assert set(terms) == {"correctness", "hard_format", "mark"}
        for member, text in enumerate(trajectory.workflow_codes):
            given = trajectory.results[member]
            right = given.status == "ok" and given.value == trajectory.problem.answer
            assert terms["correctness"][member] == float(right)
            assert terms["hard_format"][member] == hard_format(text)
            assert terms["mark"][member] == mark(text)
            total = (terms["correctness"][member] or 0) + 0.5 * (hard_format(text) + mark(text))
            assert trajectory.rewards[member] == pytest.approx(total)


def test_the_form_is_learnt(answers: Layout) -> None:
    first, last = (read_metrics(answers, f"reward@{round}") for round in (1, 2))
    assert 0 < first["hard_format/mean"] < last["hard_format/mean"]
    assert 0 < first["mark/mean"] < last["mark/mean"]
    assert first["hard_format/std"] > 0


def test_influence_and_evaluation_work_as_for_workflows(answers: Layout) -> None:
    lines = read_jsonl(answers.selection(1), Selected)
    assert any(line.influence for line in lines)
    assert len({line.selected for line in lines}) == 2
    outcomes = read_jsonl(answers.evaluation("after") / "outcomes.jsonl", ProblemOutcome)
    attempts = read_jsonl(answers.evaluation("after") / "attempts.jsonl", Attempt)
    assert all(outcome.siblings_passed is None for outcome in outcomes)
    right = [attempt for attempt in attempts if attempt.right]
    assert right
    assert all(str(attempt.result.value) in attempt.code for attempt in right)
    assert sum(attempt.samples for attempt in right) == sum(outcome.correct for outcome in outcomes)


def test_a_step_of_it_can_be_looked_at_and_its_page_shows_the_form(answers: Layout) -> None:
    told = graft(answers.root, "diagnose", "--problems", "2")
    assert told.returncode == 0, told.stderr
    assert "hard_format" in told.stdout
    page = read_text(answers.page)
    assert "hard_format" in page
    assert "&lt;think&gt;" in page
    assert "<think>" not in page


PAGE = (Path(__file__).parents[2] / "docs" / "environments.md").read_text(encoding="utf-8")
(OWN,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "class Parity" in block]


def test_the_environment_of_the_documentation_runs_through_all_stages(tmp_path: Path) -> None:
    assert len(OWN.splitlines()) < 60
    root = make_workspace(tmp_path / "project", [*SMALL, "rounds=1", "bootstrap.epochs=4"])
    (root / "parity.py").write_text(OWN)
    layout = retrained(root, "environment=parity:Parity", "rewards.environment={brief: 0.2}")
    for trajectory in read_jsonl(layout.rewarded(1), RewardedTrajectory):
        assert set(trajectory.reward_terms) == {"correctness", "brief"}
        assert trajectory.prompt.endswith("Is that even?\n")
    texts = {w.code for w in read_jsonl(layout.workflows(1) / "index.jsonl", Workflow)}
    assert {"yes.", "no."} <= texts
    assert read_metrics(layout, "evaluate@after")["pass_at_1_greedy"] > 0.2

    (root / "parity.py").write_text(OWN.replace("1 / max(len(text.split()), 1)", "1.0"))
    stale = graft(root, "status")
    rewards = next(line for line in stale.stdout.splitlines() if line.startswith("reward@1"))
    assert "source environment.name: changed" in rewards
