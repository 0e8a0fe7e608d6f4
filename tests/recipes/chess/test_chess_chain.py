"""The real chain in the environment RookWorld, on a small scale: both tasks, two rounds, all that it writes."""

import pytest

from benchmarks.chess.__main__ import canonical_reward_share
from benchmarks.support.workspace import make_workspace
from flows.cli.presets import preset
from recipes.chess.terms import TERMS, is_analysis, is_right
from tasks.artifacts import read_jsonl, read_text
from tasks.core.metrics_files import read_metrics
from tasks.layout import Layout
from tasks.params.file import load_params
from tasks.records import Attempt, Problem, Workflow
from tasks.trajectories import read_rewarded
from tests.support.chains import retrained

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

SMALL = [
    *preset("chess"), "rounds=2", "problems.siblings=1", "problems.train=16", "problems.test=40", "bootstrap.hidden=64",
    "environment.demonstrations=600", "bootstrap.epochs=2", "update.prompts_per_step=8", "machine.tracking.uri=",
]  # fmt: skip


@pytest.fixture(scope="module")
def chess(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    root = make_workspace(tmp_path_factory.mktemp("chess") / "project", SMALL)
    return retrained(root, warns=True)


def test_coldstart_writes_nothing_and_the_policy_learns_demonstrations(chess: Layout) -> None:
    assert read_jsonl(chess.coldstart / "index.jsonl", Workflow) == []
    assert read_metrics(chess, "bootstrap")["pairs"] == 600
    assert read_metrics(chess, "bootstrap")["parameters"] < 1e6


def test_rewards_are_the_weighted_terms_and_each_round_asks_other_positions(chess: Layout) -> None:
    weights = load_params(chess.root / "params.yaml").rewards.environment
    asked = []
    for round in (1, 2):
        groups = list(read_rewarded(chess.trajectories(round)))
        asked += [group.problem.question for group, _ in groups]
        for group, rewards in groups:
            for member, reward in zip(group.members, rewards, strict=True):
                terms = {name: term(group.problem, member.code, []) for name, term in TERMS.items()}
                assert reward.reward == pytest.approx(sum(weights[name] * value for name, value in terms.items()))
    assert len(set(asked)) == len(asked) == 32
    problems = read_jsonl(chess.problems("test"), Problem)
    assert canonical_reward_share(problems, weights) == 1


def test_measures_are_means_over_the_attempts_and_the_page_has_boards(chess: Layout) -> None:
    problems = {problem.problem_id: problem for problem in read_jsonl(chess.problems("test"), Problem)}
    numbers = read_metrics(chess, "evaluate@after")
    greedy = [a for a in read_jsonl(chess.evaluation("after") / "attempts.jsonl", Attempt) if a.greedy]
    assert len(greedy) == 40
    for attempt in greedy:
        assert attempt.right == (
            attempt.result.status == "ok" and is_right(problems[attempt.problem_id], attempt.result.value)
        )
        assert str(attempt.picture).startswith("<svg")
    best = [attempt.right for attempt in greedy if is_analysis(problems[attempt.problem_id])]
    assert numbers["measure/p_best_move/greedy"] == pytest.approx(sum(best) / len(best))
    assert "measure/a_exact/sampled_unseen" in numbers
    assert numbers["measure/self_play_half_moves/greedy"] >= 0
    page = read_text(chess.page)
    assert "Measures of the environment" in page
    assert "picture of this completion" in page
