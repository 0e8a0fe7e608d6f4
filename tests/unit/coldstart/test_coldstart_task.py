"""The stage `coldstart` with the generator's problems and the real sandbox."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.artifacts import digest_path, read_jsonl, write_jsonl
from tasks.coldstart.task import run
from tasks.environments.word_problems.enumerate_programs import Expression, shortest_expressions, write_workflow
from tasks.environments.word_problems.generate import generate
from tasks.environments.word_problems.problem_writer import WordProblemParams
from tasks.environments.word_problems.solve_problems import confirm_candidates, find_candidates
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.programs import answer_check
from tasks.programs.contract import HEADER, workflow_id
from tasks.programs.operators.builtin import numbers
from tasks.programs.sandbox.sandbox import Program, Sandbox
from tasks.records.problems import Problem, Sibling
from tasks.records.search import Workflow
from tests.support.stage_params import SHIPPED, stage_params

LEAVES = Expression(leaf="n[0]"), Expression(leaf="n[1]")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(2.0, 256, allow_weak=True, workers=1) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    """Some of each number of operations."""
    train = generate(SHIPPED.problems, WordProblemParams(stories="fixed", operations=4), seed=0)["train"]
    return [p for wanted in (1, 2, 3, 4) for p in [p for p in train if p.operations == wanted][:3]]


def params(base: str = "scratch", operations: int = 4) -> Params:
    environment = {"name": "workflow", "enumerated_operations": operations}
    return stage_params("coldstart", environment=environment, policy={"base": base}, sandbox={"allow_weak": True})


@pytest.fixture
def layout(tmp_path: Path, problems: list[Problem]) -> Layout:
    layout = Layout(tmp_path)
    write_jsonl(layout.problems("train"), problems)
    return layout


def enumerated(layout: Layout, listed: list[Problem]) -> dict[str, str]:
    """Problem → the id of its workflow."""
    write_jsonl(layout.problems("train"), listed)
    run(layout, params(), None)
    return {w.problem_id: w.workflow_id for w in index_of(layout)}


def bare(problem: Problem) -> Problem:
    return problem.model_copy(update={"siblings": []})


def index_of(layout: Layout) -> list[Workflow]:
    return read_jsonl(layout.coldstart / "index.jsonl", Workflow)


def test_problems_of_up_to_four_operations_are_solved_in_the_sandbox_by_the_same_bytes_each_time(
    layout: Layout, problems: list[Problem], sandbox: Sandbox
) -> None:
    run(layout, params(), None)
    found = {workflow.problem_id: workflow for workflow in index_of(layout)}
    assert found.keys() == {p.problem_id for p in problems}
    codes = [found[p.problem_id].code for p in problems]
    programs = [Program(code, p.questions) for code, p in zip(codes, problems, strict=True)]
    for problem, code, results in zip(problems, codes, sandbox.run(programs), strict=True):
        workflow = found[problem.problem_id]
        assert all(map(answer_check.is_right, results, problem.answers))
        assert [workflow.result, *workflow.sibling_results] == results
        assert (workflow.workflow_id, workflow.proposer, workflow.value) == (workflow_id(code), "coldstart", 1.0)
        assert problem.operations is not None
        assert workflow.depth <= problem.operations
    assert (layout.coldstart / "trees.jsonl").read_text() == ""
    assert json.loads(layout.metrics("coldstart").read_text()) == {"problems": 12, "solved": 12}
    written = digest_path(layout.coldstart)
    run(layout, params(), None)
    assert digest_path(layout.coldstart) == written


def test_no_workflow_is_longer_than_the_params_allow(layout: Layout, problems: list[Problem]) -> None:
    run(layout, params(operations=2), None)
    assert {w.depth for w in index_of(layout)} == {1, 2}
    assert {w.problem_id for w in index_of(layout)} >= {p.problem_id for p in problems if (p.operations or 9) <= 2}
    assert json.loads(layout.metrics("coldstart").read_text())["solved"] < 12


def test_neither_order_nor_the_siblings_of_others_change_a_workflow(layout: Layout, problems: list[Problem]) -> None:
    with_siblings = enumerated(layout, problems)
    alone = enumerated(layout, [bare(p) for p in problems])
    first, second = problems[::2], [bare(p) for p in problems[1::2]]
    mixed, turned = enumerated(layout, [*first, *second]), enumerated(layout, [*second, *first][::-1])
    assert alone.keys() == with_siblings.keys()
    expected = {p.problem_id: with_siblings[p.problem_id] for p in first}
    assert mixed == turned == expected | {p.problem_id: alone[p.problem_id] for p in second}


def test_without_siblings_the_likeliest_is_right_more_often_than_the_shortest() -> None:
    sizes = SHIPPED.problems.model_copy(update={"train": 48, "siblings": 3})
    stories = WordProblemParams(stories="fixed", phrasings=1, operations=4, unseen_template_share=0)
    problems = generate(sizes, stories, seed=0)["train"]
    likeliest = [find_candidates(bare(p), 4) for p in problems]
    fewest = [shortest_expressions([numbers(p.question)], [p.answer], 4) for p in problems]
    more, less = (sum(is_right(c[0], p) for c, p in zip(each, problems, strict=True)) for each in (likeliest, fewest))
    assert more > 1.2 * less > 0


def test_siblings_with_the_same_answer_keep_no_wrong_candidate_out() -> None:
    """A constant or a coincidence solves them too, so candidates are found and ranked as without siblings."""
    own = Problem(problem_id="p", question="There are 3 boxes of 4 pens.", answer=12, source="test")
    alike = own.model_copy(update={"siblings": [Sibling(question="Of 3 boxes each has 4 pens.", answer=12)]})
    other = own.model_copy(update={"siblings": [Sibling(question="There are 5 boxes of 6 pens.", answer=30)]})
    assert find_candidates(alike, 2) == find_candidates(own, 2)
    assert len(find_candidates(other, 2)) < len(find_candidates(alike, 2))


def is_right(expression: Expression, problem: Problem) -> bool:
    """Whether it gives the answers of the siblings that the search did not see."""
    names: dict[str, Any] = {"numbers": numbers}
    exec(write_workflow(expression, HEADER), names)
    return [names["solve"](question) for question in problem.questions] == pytest.approx(list(problem.answers))


def test_a_base_needs_workflows_for_the_worked_examples_of_its_prompt_only(layout: Layout) -> None:
    asked = params(base="somebody/model")
    run(layout, asked, None)
    assert index_of(layout)
    layout.problems("train").unlink()  # it is not even read
    own = {"prompt": asked.policy.prompt.model_copy(update={"file": "own.jsonl"})}
    run(layout, asked.model_copy(update={"policy": asked.policy.model_copy(update=own)}), None)
    assert index_of(layout) == []
    assert json.loads(layout.metrics("coldstart").read_text()) == {"problems": 0, "solved": 0}


def test_the_first_candidate_that_solves_all_questions_is_taken(sandbox: Sandbox) -> None:
    siblings = [Sibling(question="3 and 5?", answer=15)]
    problem = Problem(problem_id="p", question="2 and 2?", answer=4, source="test", siblings=siblings)
    tried = [(problem, Expression(symbol, *LEAVES)) for symbol in "-+*"]
    (workflow,) = confirm_candidates([*tried, *tried], sandbox)
    assert "n[0] * n[1]" in workflow.code  # n[0] + n[1] solves the problem, but not its sibling
    assert [r.value for r in (workflow.result, *workflow.sibling_results)] == [4, 15]
    assert confirm_candidates(tried[:2], sandbox) == confirm_candidates([], sandbox) == []
