"""What `graft workflows` prints."""

from pathlib import Path

import pytest

from flows.reports.workflow_list import list_workflows
from tasks.artifacts import write_jsonl, write_text
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.programs.contract import workflow_id
from tasks.records import Result, Split, Workflow
from tests.support.records import make_workflow

SUM, PRODUCT, BROKEN = (f"def solve(problem):\n    return {text}\n" for text in ("2 + 3", "2 * 3", "\x1b[2J("))


def workflow(problem: str, code: str, value: float, prior: float, split: Split = "train") -> Workflow:
    error = "SyntaxError: '(' was never\nclosed" if code == BROKEN else None
    return make_workflow(
        code,
        problem_id=problem,
        split=split,
        visits=3,
        value=value,
        prior=prior,
        result=Result(status="error", error=error) if error else Result(status="ok", value=5),
    )


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path)
    for round in (1, 2, 10):
        found = [workflow("train-0000-sum", BROKEN, 0, 0.5), workflow("train-0000-sum", PRODUCT, 1, 0.25)]
        found += [workflow("train-0000-sum", SUM, 1, 0.75)] if round == 10 else []
        found += [workflow("validation-0001-sum", PRODUCT, 0, 1.0, "validation")]
        write_jsonl(made.workflows(round) / "index.jsonl", found)
        write_text(made.workflows(round) / "trees.jsonl", "")
    return made


def test_the_best_and_likeliest_first_with_their_numbers(layout: Layout) -> None:
    assert list_workflows(layout, "train-0000-sum", None) == (
        f"# {workflow_id(SUM)}  value 1.00  ×3  p 0.75  sample\n{SUM}\n"
        f"# {workflow_id(PRODUCT)}  value 1.00  ×3  p 0.25  sample\n{PRODUCT}\n"
        f"# {workflow_id(BROKEN)}  value 0.00  ×3  p 0.5  sample  SyntaxError: '(' was never closed\n"
        "def solve(problem):\n    return \ufffd[2J(\n"
    )


def test_of_the_round_that_is_asked_for(layout: Layout) -> None:
    assert SUM not in list_workflows(layout, "train-0000-sum", 2)
    assert PRODUCT in list_workflows(layout, "validation-0001-sum", 1)


def test_what_is_printed_is_python(layout: Layout) -> None:
    text = list_workflows(layout, "train-0000-sum", 10)
    compile(text.partition(f"# {workflow_id(BROKEN)}")[0], "printed", "exec")


@pytest.mark.parametrize(
    ("asked", "near"), [("validation", "validation-0001-sum"), ("tain-0000-sun", "train-0000-sum")]
)
def test_an_unknown_problem_is_told_with_a_near_one(layout: Layout, asked: str, near: str) -> None:
    with pytest.raises(GraftError, match=rf"no workflows of problem '{asked}'; did you mean '{near}'\?"):
        list_workflows(layout, asked, 1)


def test_nothing_searched_is_told(tmp_path: Path) -> None:
    with pytest.raises(GraftError, match="no round has been searched yet; run graft retrain"):
        list_workflows(Layout(tmp_path), "train-0000-sum", None)


def test_a_round_that_found_nothing_is_told(layout: Layout) -> None:
    write_jsonl(layout.workflows(1) / "index.jsonl", [])
    with pytest.raises(GraftError, match=r"index\.jsonl: no workflows of problem 'a'$"):
        list_workflows(layout, "a", 1)
