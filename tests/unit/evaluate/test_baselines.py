"""The greedy cover against brute force, the majority against all draws, and the stage with a policy and sandbox."""

import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from random import Random

import pytest

from tasks.artifacts import read_jsonl, write_json, write_jsonl, write_text
from tasks.evaluate.baselines import greedy_cover, majority_share
from tasks.evaluate.baselines_task import run
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.records.evaluation import ProblemOutcome, StoredWorkflow
from tasks.records.problems import Problem
from tasks.statistics.pass_at_k import maj_at_k
from tests.support.records import make_outcome, make_workflow
from tests.support.stage_params import stage_params

PRODUCT, SUM, LITERAL = (f"def solve(problem):\n    n = numbers(problem)\n    return {v}\n" for v in (
    "n[0] * n[1]", "n[0] + n[1]", "12"))  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_each_program_of_the_cover_solves_the_most_that_none_before_does(seed: int) -> None:
    luck = Random(seed)
    solved = {f"c{i}": {f"p{j}" for j in range(8) if luck.random() < 0.3} for i in luck.sample(range(9), 9)}
    chosen = greedy_cover(solved, 9)
    covered = set[str]()
    for code, gain in chosen:
        gains = {other: len(problems - covered) for other, problems in solved.items()}
        assert (gain, code) == (max(gains.values()), min(c for c, g in gains.items() if g == max(gains.values())))
        covered |= solved[code]
    assert covered == set().union(*solved.values()), "it ends where no program solves a further problem"
    for most in range(1, 9):
        assert greedy_cover(solved, most) == chosen[:most]
        best = max(len(set().union(*(solved[c] for c in some))) for some in combinations(solved, most))
        assert sum(gain for _, gain in chosen[:most]) >= (1 - (1 - 1 / most) ** most) * best  # Nemhauser et al. 1978
    assert greedy_cover(dict(reversed(solved.items())), 9) == chosen
    assert greedy_cover({}, 3) == []


@pytest.mark.parametrize("seed", range(20))
def test_the_majority_is_that_of_all_samples(seed: int) -> None:
    luck = Random(seed)
    wrong = sorted((luck.randint(1, 4) for _ in range(luck.randint(0, 4))), reverse=True)
    correct, errors = luck.randint(0, 4), luck.randint(0, 2)
    count = correct + sum(wrong) + errors or 1
    outcome = make_outcome("p", samples=count, correct=correct, wrong=wrong)
    assert majority_share(outcome) == pytest.approx(maj_at_k(count, correct, wrong, count))


def params(budget: int = 8, environment: str = "workflow") -> Params:
    evaluation = {"ks": [1, 3], "temperature": 0.8, "budget": budget}
    more = {"policy": {"max_new_tokens": 96}, "rounds": {"last": 2}}
    return stage_params("baselines", environment={"name": environment}, evaluation=evaluation, **more)


@pytest.fixture
def layout(tmp_path: Path, make_solver: Callable[[Path, str], str]) -> Layout:
    """Two rounds, whose programs multiply, add or know one answer by heart; the first policy multiplies."""
    layout, tests = (
        Layout(tmp_path),
        [("3 boxes of 4?", 12), ("2 bags of 9?", 18), ("5 pens and 2?", 7), ("1 of 8?", 1)],
    )
    made = [Problem(problem_id=f"t{i}", question=q, answer=a, source="t") for i, (q, a) in enumerate(tests)]
    write_jsonl(layout.problems("test"), made)
    found = {1: [("a", PRODUCT, 1.0), ("b", PRODUCT, 1.0), ("c", SUM, 1.0)], 2: [("c", SUM, 1.0), ("d", LITERAL, 1.0)]}
    for number, workflows in found.items():
        lines = [make_workflow(code, problem_id=name, value=value) for name, code, value in workflows]
        lines.append(make_workflow("raise", problem_id="e", value=0.5))
        write_jsonl(layout.workflows(number) / "index.jsonl", lines)
        write_json(layout.metrics("search", number), {"completions": 7})
        write_text(layout.validation(number) / "rewards.jsonl", "{}\n{}\n{}\n")
    outcomes = [make_outcome(p.problem_id, greedy=p.problem_id != "t3") for p in made]
    write_jsonl(layout.evaluation("after") / "outcomes.jsonl", outcomes)
    make_solver(layout.policy(0), PRODUCT)
    return layout


def measured(layout: Layout, budget: int = 8, environment: str = "workflow") -> dict[str, float]:
    run(layout, params(budget, environment), None)
    return dict(json.loads(layout.metrics("baselines").read_text()))


def test_stored_workflows_are_tried_in_their_order_and_the_first_policy_with_what_training_spent(
    layout: Layout,
) -> None:
    numbers = measured(layout)
    stored = read_jsonl(layout.baselines / "workflows.jsonl", StoredWorkflow)
    assert [(each.code, each.train_solved) for each in stored] == [(PRODUCT, 2), (LITERAL, 1), (SUM, 1)]
    assert [each.right for each in stored] == [
        [True, True, False, False],
        [True, False, False, False],
        [False, False, True, False],
    ]
    assert (numbers["workflows"], numbers["workflows_solve"], numbers["first_workflow_solves"]) == (3, 0.75, 0.5)
    assert (numbers["spent"], numbers["samples"]) == (20, 5)
    outcomes = read_jsonl(layout.baselines / "outcomes.jsonl", ProblemOutcome)
    assert [outcome.samples for outcome in outcomes] == [5] * 4
    assert numbers["samples_solve"] == sum(outcome.correct > 0 for outcome in outcomes) / 4 == 0.5
    assert (numbers["majority_solves"], numbers["lead_over_majority"]) == (0.5, 0.25)
    assert measured(layout, budget=2)["samples"] == 2
    assert "samples" not in measured(layout, budget=0)


def test_where_completions_are_no_programs_for_other_questions_there_are_samples_only(layout: Layout) -> None:
    assert measured(layout, environment="answer").keys() & {"workflows", "samples"} == {"samples"}
