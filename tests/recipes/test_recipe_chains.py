"""The real chains of the shipped recipes, on a small scale: what they write is what their terms and measures say.

A folder with an environment, its params, its terms and a preset is all that such a run needs.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from recipes.chess.terms import TERMS, is_analysis
from recipes.civil.environment import toxicity
from tasks.artifacts import read_json, read_jsonl, read_text
from tasks.core.metrics_files import read_metrics
from tasks.layout import Layout
from tasks.params.file import load_params
from tasks.records.evaluation import Attempt, ProblemOutcome
from tasks.records.problems import Problem
from tasks.records.promotion import Promotion
from tests.support.chains import retrained
from tests.support.groups import read_rewarded
from tests.support.workspace import make_workspace

pytestmark = pytest.mark.e2e

SMALL = ["problems.train=16", "problems.test=40", "bootstrap.hidden=64", "bootstrap.epochs=2"]
SMALL += ["update.prompts_per_step=8", "machine.tracking.uri="]


def chain(root: Path, recipe: str, *changes: str) -> Layout:
    return retrained(make_workspace(root / "project", []), *SMALL, *changes, preset=recipe, warns=True)


def earns_all(problem: Problem, weights: Mapping[str, float]) -> bool:
    """True if the canonical completion earns exactly the weights of its task's terms; three of them are of analyses."""
    earned = sum(weight * TERMS[name](problem, str(problem.answer), []) for name, weight in weights.items())
    of_analyses = ("best", "candidates", "evaluations")
    return earned == sum(weights[name] for name in weights if (name in of_analyses) == is_analysis(problem))


@pytest.mark.nightly
def test_chess(tmp_path: Path) -> None:
    layout = chain(tmp_path, "chess", "rounds=2", "problems.siblings=1", "environment.demonstrations=600")
    assert read_metrics(layout, "bootstrap")["pairs"] == 600
    weights = load_params(layout.root / "params.yaml").environment.params["weights"]
    groups = [own for round in (1, 2) for own in read_rewarded(layout.trajectories(round))]
    for group, rewards in groups:
        for member, reward in zip(group.members, rewards, strict=True):
            terms = {name: term(group.problem, member.code, []) for name, term in TERMS.items()}
            assert reward.reward == pytest.approx(sum(weights[name] * value for name, value in terms.items()))
    assert len({group.problem.question for group, _ in groups}) == len(groups) == 32  # each round asks others
    problems = {problem.problem_id: problem for problem in read_jsonl(layout.problems("test"), Problem)}
    assert all(earns_all(problem, weights) for problem in problems.values())
    greedy = [a for a in read_jsonl(layout.evaluation("after") / "attempts.jsonl", Attempt) if a.greedy]
    assert all(str(attempt.picture).startswith("<svg") for attempt in greedy)
    best = [attempt.right for attempt in greedy if is_analysis(problems[attempt.problem_id])]
    numbers = read_metrics(layout, "evaluate@after")
    assert numbers["measure/p_best_move/greedy"] == pytest.approx(sum(best) / len(best))
    assert numbers["measure/self_play_half_moves/greedy"] >= 0
    assert "picture of this completion" in read_text(layout.page)


@pytest.mark.slow
def test_civil(tmp_path: Path) -> None:
    few = ("problems.train=4", "problems.test=16", "evaluation.samples=4", "evaluation.ks=[1]")
    layout = chain(tmp_path, "civil", "rounds=1", "problems.siblings=0", "environment.demonstrations=300", *few)
    for group, rewards in read_rewarded(layout.trajectories(1)):
        for member, reward in zip(group.members, rewards, strict=True):
            assert reward.reward == pytest.approx(1 - max(toxicity(member.code), 0.3) if member.code.strip() else 0.0)
    attempts = read_jsonl(layout.evaluation("after") / "attempts.jsonl", Attempt)
    samples = [attempt.code for attempt in attempts for _ in range(attempt.samples)]
    numbers, level = read_metrics(layout, "evaluate@after"), sum(map(toxicity, samples)) / len(samples)
    assert numbers["measure/toxicity/sampled"] == pytest.approx(level)
    assert numbers["measure/distinct_texts/sampled"] == len(set(samples)) / len(samples)
    outcomes = read_jsonl(layout.evaluation("after") / "outcomes.jsonl", ProblemOutcome)
    decision = read_json(layout.promotion, Promotion)
    assert decision.measure == "toxicity"
    assert decision.value == pytest.approx(sum(outcome.gate_value or 0 for outcome in outcomes) / len(outcomes))
    assert decision.value == pytest.approx(level)
