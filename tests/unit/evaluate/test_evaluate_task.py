"""The stage `evaluate` with a real sandbox and a trained policy that always writes one workflow."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.artifacts import digest_path, read_jsonl, write_jsonl
from tasks.evaluate.by_template import by_template, csv_table
from tasks.evaluate.task import run
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.records.evaluation import Attempt, ProblemOutcome
from tasks.records.problems import Problem, Sibling
from tasks.seeds import derive_seed
from tests.support.stage_params import stage_params

PRODUCT = "def solve(problem):\n    n = numbers(problem)\n    return n[0] * n[1]\n"


def params(temperature: float = 0.8) -> Params:
    evaluation = {"samples": 6, "ks": [1, 3], "temperature": temperature}
    return stage_params("evaluate", policy={"max_new_tokens": 96}, evaluation=evaluation)


def problem(name: str, answer: int, seen: bool, sibling: int) -> Problem:
    siblings = [Sibling(question="5 boxes of 6 pens?", answer=sibling)]
    kind = {"source": "test", "template": name, "seen": seen, "operations": 1 + seen, "siblings": siblings}
    return Problem.model_validate({"problem_id": name, "question": "3 boxes of 4 pens?", "answer": answer, **kind})


PROBLEMS = [problem("product", 12, True, 30), problem("lucky", 12, False, 31), problem("sum", 7, False, 11)]


@pytest.fixture
def layout(tmp_path: Path, make_solver: Callable[[Path, str], str]) -> Layout:
    layout = Layout(tmp_path)
    write_jsonl(layout.problems("test"), PROBLEMS)
    make_solver(layout.policy(0), PRODUCT)
    return layout


def read_attempts(layout: Layout) -> list[Attempt]:
    return read_jsonl(layout.evaluation("before") / "attempts.jsonl", Attempt)


def test_outcomes_attempts_and_numbers_agree(layout: Layout) -> None:
    run(layout, params(), 0)
    outcomes = read_jsonl(layout.evaluation("before") / "outcomes.jsonl", ProblemOutcome)
    found = [(o.problem_id, o.greedy, o.siblings_passed, o.samples) for o in outcomes]
    assert found == [("product", True, True, 6), ("lucky", True, False, 6), ("sum", False, False, 6)]
    attempts = read_attempts(layout)
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


def test_samples_depend_neither_on_earlier_runs_nor_on_other_problems(layout: Layout) -> None:
    written = []
    for _ in range(2):
        run(layout, params(temperature=2.0), 0)
        written.append(digest_path(layout.root / "run"))
    assert written[0] == written[1]
    together = read_attempts(layout)
    assert len({a.code for a in together}) > 3  # hot enough that chance matters
    write_jsonl(layout.problems("test"), PROBLEMS[1:2])
    run(layout, params(temperature=2.0), 0)
    assert read_attempts(layout) == [a for a in together if a.problem_id == "lucky"]
    assert len({derive_seed(0, "evaluate", p.problem_id, row) for p in PROBLEMS for row in range(6)}) == 18


def test_without_a_round_the_final_policy_is_evaluated(layout: Layout, make_solver: Callable[[Path, str], str]) -> None:
    make_solver(layout.run_policy, PRODUCT)
    run(layout, params(), None)
    assert (layout.evaluation("after") / "outcomes.jsonl").exists()
    assert layout.metrics("evaluate", "after").exists()
    assert not layout.evaluation("before").exists()


def test_after_a_warm_start_the_base_is_measured_too(layout: Layout, make_solver: Callable[[Path, str], str]) -> None:
    run(layout, params(), 0)
    plain = json.loads((layout.root / "run/metrics/evaluate@before.json").read_text())
    make_solver(layout.untouched_base, PRODUCT.replace("*", "-"))
    run(layout, params(), 0)
    numbers = json.loads((layout.root / "run/metrics/evaluate@before.json").read_text())
    assert {name: value for name, value in numbers.items() if not name.startswith("base/")} == plain
    assert numbers["base/pass_at_1_greedy"] == 0
    assert numbers["base/problems"] == plain["problems"]
    base = read_jsonl(layout.evaluation("before") / "base.jsonl", ProblemOutcome)
    assert [(o.problem_id, o.greedy, o.samples) for o in base] == [(p.problem_id, False, 6) for p in PROBLEMS]
