"""The stage `coldstart` with the generator's problems and the real sandbox."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.artifacts import digest_path, read_jsonl, write_jsonl
from tasks.coldstart.enumerate_programs import Expression, shortest_expressions, write_workflow
from tasks.coldstart.solve_problems import confirm_candidates, find_candidates, order_candidates
from tasks.coldstart.task import run
from tasks.layout import Layout
from tasks.params.file import load_params, restrict
from tasks.params.params import Params
from tasks.problems.generate import generate, generate_splits
from tasks.programs.answer_check import solved_share
from tasks.programs.contract import HEADER, workflow_id
from tasks.programs.operators.builtin import numbers
from tasks.programs.sandbox.sandbox import Program, Sandbox
from tasks.records import Problem, Sibling, Split, Workflow

SHIPPED = load_params(Path(__file__).parents[3] / "params.yaml")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(2.0, 256, allow_weak=True, workers=1) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    """Some of each number of operations."""
    train = generate(SHIPPED.problems, seed=0)["train"]
    return [p for wanted in (1, 2, 3, 4) for p in [p for p in train if p.operations == wanted][:6]]


def params(base: str = "scratch", operations: int = 4, passes: int = 0) -> Params:
    changes = {
        "policy": SHIPPED.policy.model_copy(update={"base": base}),
        "coldstart": SHIPPED.coldstart.model_copy(update={"operations": operations, "em_passes": passes}),
        "sandbox": SHIPPED.sandbox.model_copy(update={"allow_weak": True}),
    }
    return restrict(SHIPPED.model_copy(update=changes), ["seed", "policy.base", "coldstart", "sandbox"])


@pytest.fixture
def layout(tmp_path: Path, problems: list[Problem]) -> Layout:
    layout = Layout(tmp_path)
    write_jsonl(layout.problems("train"), problems)
    return layout


def index_of(layout: Layout) -> list[Workflow]:
    return read_jsonl(layout.coldstart / "index.jsonl", Workflow)


def test_problems_of_up_to_four_operations_are_solved_and_each_workflow_holds_when_run(
    layout: Layout, problems: list[Problem], sandbox: Sandbox
) -> None:
    run(layout, params(), None)
    found = {workflow.problem_id: workflow for workflow in index_of(layout)}
    assert found.keys() == {p.problem_id for p in problems}
    codes = [found[p.problem_id].code for p in problems]
    programs = [Program(code, p.questions) for code, p in zip(codes, problems, strict=True)]
    for problem, code, results in zip(problems, codes, sandbox.run(programs), strict=True):
        workflow = found[problem.problem_id]
        assert solved_share(results, problem.answers) == 1.0
        assert [workflow.result, *workflow.sibling_results] == results
        assert (workflow.workflow_id, workflow.proposer, workflow.value) == (workflow_id(code), "coldstart", 1.0)
        assert problem.operations is not None
        assert workflow.depth <= problem.operations
    assert (layout.coldstart / "trees.jsonl").read_text() == ""
    assert json.loads(layout.metrics("coldstart").read_text()) == {"problems": 24, "solved": 24}


def test_longer_workflows_than_the_params_allow_are_left_to_others(layout: Layout, problems: list[Problem]) -> None:
    run(layout, params(operations=2), None)
    assert {w.depth for w in index_of(layout)} == {1, 2}
    assert {w.problem_id for w in index_of(layout)} >= {p.problem_id for p in problems if (p.operations or 9) <= 2}
    assert json.loads(layout.metrics("coldstart").read_text())["solved"] < 24


def test_problems_with_and_without_siblings_in_any_order(layout: Layout, problems: list[Problem]) -> None:
    """What a problem gets depends on neither its neighbours nor on whether they have siblings."""
    run(layout, params(), None)
    with_siblings = {w.problem_id: w.workflow_id for w in index_of(layout)}
    bare = [p.model_copy(update={"siblings": []}) for p in problems]
    seen = []
    for listed in (bare, [*problems[::2], *bare[1::2]], [*bare[1::2], *problems[::2]][::-1]):
        write_jsonl(layout.problems("train"), listed)
        run(layout, params(), None)
        seen.append({w.problem_id: w.workflow_id for w in index_of(layout)})
    alone, mixed, other_order = seen
    assert alone.keys() == with_siblings.keys()
    assert mixed == other_order
    assert mixed == {p.problem_id: with_siblings[p.problem_id] for p in problems[::2]} | {
        p.problem_id: alone[p.problem_id] for p in bare[1::2]
    }


def test_without_siblings_the_likeliest_is_right_more_often_than_the_shortest() -> None:
    sizes: dict[Split, int] = {"train": 96}
    problems = generate_splits(sizes, phrasings=1, siblings=3, unseen=0.0, seed=0)["train"]
    likeliest = [find_candidates(p.model_copy(update={"siblings": []}), 4) for p in problems]
    fewest = [shortest_expressions([numbers(p.question)], [p.answer], 4) for p in problems]
    right = [
        sum(is_right(found[0], problem) for found, problem in zip(listed, problems, strict=True))
        for listed in (likeliest, fewest)
    ]
    assert right[0] > 1.2 * right[1] > 0


@pytest.mark.slow
def test_what_problems_have_in_common_tells_which_candidate_is_right() -> None:
    """Boxes are multiplied and gifts taken away; what is wrong is now this, now that, and often stands first."""
    problems, told = [], []
    for i in range(48):
        a, b = 40 + 5 * i, 3 + i % 7
        text, symbol, others = (
            (f"There are {a} boxes with {b} pens. How many pens?", "*", "+-/")
            if i % 2
            else (f"Ann has {a} pens and gives {b} away. How many are left?", "-", "+*/")
        )
        problems.append(Problem(problem_id=f"p{i}", question=text, answer=a * b if i % 2 else a - b, source="test"))
        leaves = Expression(leaf="n[0]"), Expression(leaf="n[1]")
        right, wrong = Expression(symbol, *leaves), Expression(others[i // 2 % 3], *leaves)
        told.append([right, wrong] if i % 3 else [wrong, right])
    assert order_candidates(problems, told, 0, seed=0) == told
    learnt = order_candidates(problems, told, 1, seed=0)
    rights = [found[0].symbol == ("*" if i % 2 else "-") for i, found in enumerate(learnt)]
    assert sum(rights) > 44
    assert [sorted(map(str, found)) for found in learnt] == [sorted(map(str, found)) for found in told]
    assert order_candidates(problems[::-1], told[::-1], 1, seed=0)[::-1] == learnt


@pytest.mark.slow
def test_the_params_say_how_often_candidates_learn_and_siblings_need_no_learning(
    layout: Layout, problems: list[Problem]
) -> None:
    def workflows(passes: int, listed: list[Problem]) -> dict[str, str]:
        write_jsonl(layout.problems("train"), listed)
        run(layout, params(passes=passes), None)
        return {w.problem_id: w.workflow_id for w in index_of(layout)}

    mixed = [p.model_copy(update={"siblings": []}) if i % 2 else p for i, p in enumerate(problems)]
    exact, plain, learnt = workflows(0, problems), workflows(0, mixed), workflows(1, mixed)
    assert workflows(1, problems) == exact
    assert plain.keys() == learnt.keys() == exact.keys()
    assert learnt != plain
    assert all(learnt[p.problem_id] == exact[p.problem_id] for p in problems[::2])


def is_right(expression: Expression, problem: Problem) -> bool:
    """Whether it gives the answers of the siblings that the search did not see."""
    names: dict[str, Any] = {"numbers": numbers}
    exec(write_workflow(expression, HEADER), names)
    return [names["solve"](question) for question in problem.questions] == pytest.approx(list(problem.answers))


def test_a_second_run_writes_the_same_bytes(layout: Layout) -> None:
    written = []
    for _ in range(2):
        run(layout, params(operations=3), None)
        written.append(digest_path(layout.coldstart))
    assert written[0] == written[1]


def test_a_policy_of_another_base_needs_no_cold_start(layout: Layout) -> None:
    layout.problems("train").unlink()  # it is not even read
    run(layout, params(base="somebody/model"), None)
    assert index_of(layout) == []
    assert json.loads(layout.metrics("coldstart").read_text()) == {"problems": 0, "solved": 0}


def test_the_first_candidate_that_solves_all_questions_is_taken(sandbox: Sandbox) -> None:
    siblings = [Sibling(question="3 and 5?", answer=15)]
    problem = Problem(problem_id="p", question="2 and 2?", answer=4, source="test", siblings=siblings)
    leaves = Expression(leaf="n[0]"), Expression(leaf="n[1]")
    tried = [(problem, Expression(symbol, *leaves)) for symbol in "-+*"]
    (workflow,) = confirm_candidates([*tried, *tried], sandbox)
    assert "n[0] * n[1]" in workflow.code  # n[0] + n[1] solves the problem, but not its sibling
    assert [r.value for r in (workflow.result, *workflow.sibling_results)] == [4, 15]
    assert confirm_candidates(tried[:2], sandbox) == []
    assert confirm_candidates([], sandbox) == []
