"""The real chain of the recipe code: one-line functions are written, tested by hidden tests, and learnt."""

from statistics import fmean
from typing import Any

import pytest

from recipes.code.evaluator import score
from tasks.artifacts import read_jsonl, read_text
from tasks.layout import Layout
from tasks.records.evaluation import ProblemOutcome
from tasks.statistics.intervals import difference_interval
from tests.support.chains import retrained
from tests.support.groups import read_rewarded
from tests.support.workspace import graft, make_workspace

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

SMALL = [
    *["environment=recipes.code:Code", "problems.train=240", "problems.validation=16"],
    *["problems.test=60", "bootstrap.hidden=128", "bootstrap.layers=3", "bootstrap.vocabulary=320"],
    *["bootstrap.epochs=12", "bootstrap.learning_rate=0.003", "policy.max_new_tokens=24"],
    *["influence.selection=none", "update.epochs=3", "evaluation.samples=10", "evaluation.ks=[1, 5]"],
    *["machine.tracking.uri=", "rounds=2"],
]


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    root = make_workspace(tmp_path_factory.mktemp("code") / "project", SMALL)
    return retrained(root)


def _shares(layout: Layout, when: str) -> dict[str, float]:
    outcomes = read_jsonl(layout.evaluation(when) / "outcomes.jsonl", ProblemOutcome)
    return {outcome.problem_id: outcome.correct / outcome.samples for outcome in outcomes}


def test_sampled_pass_at_1_rises(functions: Layout) -> None:
    before, after = _shares(functions, "before"), _shares(functions, "after")
    assert before.keys() == after.keys()
    gain = difference_interval([after[name] for name in before], [*before.values()], 0, 1000)
    assert gain.mean > gain.low > 0, (fmean(before.values()), fmean(after.values()), gain)


def test_rewards_are_verdicts_of_hidden_tests_and_prompts_have_none(functions: Layout) -> None:
    for group, rewards in read_rewarded(functions.trajectories(2)):
        answer: Any = group.problem.answer
        assert all(test not in group.prompt for test in answer["hidden"])
        assert all(test in group.prompt for test in answer["shown"])
        for member, reward in zip(group.members, rewards, strict=True):
            result = member.result
            passed = result.status == "ok" and result.value is not None and score(result.value, answer) == 1
            assert reward.reward == float(passed)


def test_a_step_can_be_looked_at_and_the_page_shows_functions(functions: Layout) -> None:
    ended = graft(functions.root, "diagnose", "--problems", "2")
    assert ended.returncode == 0, ended.stderr
    assert "hidden" in ended.stdout
    assert "def f(x)" in read_text(functions.page)
