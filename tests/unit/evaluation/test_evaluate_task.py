"""The stage `evaluate` with a real policy, which has learned one workflow by heart, and the real sandbox."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.artifacts import digest_path, read_jsonl, write_jsonl
from tasks.evaluation.by_template import by_template, csv_table
from tasks.evaluation.evaluate_task import run
from tasks.layout import Layout
from tasks.params.file import load_params, restrict
from tasks.params.params import Params
from tasks.records import Attempt, Problem, ProblemOutcome, Sibling
from tasks.seeds import derive_seed

SHIPPED = load_params(Path(__file__).parents[3] / "params.yaml")
PRODUCT = "def solve(problem):\n    n = numbers(problem)\n    return n[0] * n[1]\n"


def params(temperature: float = 0.8) -> Params:
    evaluation = SHIPPED.evaluation.model_copy(update={"samples": 6, "ks": [1, 3], "temperature": temperature})
    policy = SHIPPED.policy.model_copy(update={"max_new_tokens": 96})
    keys = ["seed", "environment", "environment_sha256", "policy.base", "policy.max_new_tokens", "sandbox", "operators"]
    keys += [f"evaluation.{key}" for key in ("samples", "ks", "temperature", "resamples", "confidence")]
    return restrict(SHIPPED.model_copy(update={"evaluation": evaluation, "policy": policy}), keys)


def problem(name: str, answer: int, seen: bool, sibling: int) -> Problem:
    siblings = [Sibling(question="5 boxes of 6 pens?", answer=sibling)]
    return Problem(
        problem_id=name,
        question="3 boxes of 4 pens?",
        answer=answer,
        source="test",
        template=name,
        seen=seen,
        operations=1 + seen,
        siblings=siblings,
    )


PROBLEMS = [problem("product", 12, True, 30), problem("lucky", 12, False, 31), problem("sum", 7, False, 11)]


@pytest.fixture
def layout(tmp_path: Path, make_solver: Callable[[Path, str], str]) -> Layout:
    layout = Layout(tmp_path)
    write_jsonl(layout.problems("test"), PROBLEMS)
    make_solver(layout.policy(0), PRODUCT)
    return layout


def test_outcomes_attempts_and_numbers_agree(layout: Layout) -> None:
    run(layout, params(), 0)
    outcomes = read_jsonl(layout.evaluation("before") / "outcomes.jsonl", ProblemOutcome)
    assert [(o.problem_id, o.greedy, o.siblings_passed) for o in outcomes] == [
        ("product", True, True),
        ("lucky", True, False),
        ("sum", False, False),
    ]
    assert [o.samples for o in outcomes] == [6, 6, 6]
    attempts = read_jsonl(layout.evaluation("before") / "attempts.jsonl", Attempt)
    assert [a.code for a in attempts if a.greedy] == [PRODUCT] * 3
    for o in outcomes:
        own = [a for a in attempts if a.problem_id == o.problem_id]
        assert sum(a.samples for a in own) == o.samples
        assert sum(a.samples for a in own if a.right) == o.correct
        assert len({a.code for a in own}) == len(own)
    numbers = json.loads((layout.root / "run/metrics/evaluate@before.json").read_text())
    assert numbers["pass_at_1_greedy"] == pytest.approx(2 / 3)
    assert numbers["pass_at_1_greedy_seen"] == 1
    assert numbers["pass_at_1_greedy_unseen"] == 0.5
    assert numbers["siblings_passed"] == pytest.approx(1 / 3)
    assert (numbers["pass_at_1_greedy_operations_1"], numbers["pass_at_1_greedy_operations_2"]) == (0.5, 1)
    assert layout.by_template("before").read_text() == csv_table(by_template(outcomes))
    assert len(by_template(outcomes)) == 3


def test_a_second_run_writes_the_same_bytes(layout: Layout) -> None:
    written = []
    for _ in range(2):
        run(layout, params(temperature=2.0), 0)
        written.append(digest_path(layout.root / "run"))
    assert written[0] == written[1]


def test_a_problem_is_sampled_alike_whatever_is_tested_beside_it(layout: Layout) -> None:
    run(layout, params(temperature=2.0), 0)
    together = read_jsonl(layout.evaluation("before") / "attempts.jsonl", Attempt)
    assert len({a.code for a in together}) > 3  # hot enough that chance has a say
    write_jsonl(layout.problems("test"), PROBLEMS[1:2])
    run(layout, params(temperature=2.0), 0)
    alone = read_jsonl(layout.evaluation("before") / "attempts.jsonl", Attempt)
    assert alone == [a for a in together if a.problem_id == "lucky"]


def test_rows_of_a_problem_and_problems_have_seeds_of_their_own() -> None:
    seeds = {derive_seed(0, "evaluate", p.problem_id, row) for p in PROBLEMS for row in range(6)}
    assert len(seeds) == 18


def test_no_round_is_the_policy_that_the_run_ends_with(layout: Layout, make_solver: Callable[[Path, str], str]) -> None:
    make_solver(layout.run_policy, PRODUCT)
    run(layout, params(), None)
    assert (layout.evaluation("after") / "outcomes.jsonl").exists()
    assert layout.metrics("evaluate", "after").exists()
    assert not layout.evaluation("before").exists()
