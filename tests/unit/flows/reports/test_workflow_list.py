"""What `graft workflows` prints."""

from pathlib import Path

import pytest

from flows.reports.search_tree import list_workflows
from tasks.artifacts import write_jsonl, write_text
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.programs.contract import workflow_id
from tasks.records import Result, Split, Workflow
from tests.support.records import make_workflow

SUM, PRODUCT, BROKEN = (f"def solve(problem):\n    return {text}\n" for text in ("2 + 3", "2 * 3", "\x1b[2J("))


def workflow(problem: str, code: str, value: float, prior: float, split: Split = "train") -> Workflow:
    failed, right = Result(status="error", error="SyntaxError: '(' was never\nclosed"), Result(status="ok", value=5)
    result = failed if code == BROKEN else right
    return make_workflow(code, problem_id=problem, split=split, visits=3, value=value, prior=prior, result=result)


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


def test_the_best_and_likeliest_come_first_with_their_numbers_as_python(layout: Layout) -> None:
    assert list_workflows(layout, "train-0000-sum", None) == (
        f"# {workflow_id(SUM)}  value 1.00  ×3  p 0.75  sample\n{SUM}\n"
        f"# {workflow_id(PRODUCT)}  value 1.00  ×3  p 0.25  sample\n{PRODUCT}\n"
        f"# {workflow_id(BROKEN)}  value 0.00  ×3  p 0.5  sample  SyntaxError: '(' was never closed\n"
        "def solve(problem):\n    return \ufffd[2J(\n"
    )
    valid = list_workflows(layout, "train-0000-sum", 10).partition(f"# {workflow_id(BROKEN)}")[0]
    compile(valid, "printed", "exec")


def test_only_the_chosen_round_is_listed(layout: Layout) -> None:
    assert SUM not in list_workflows(layout, "train-0000-sum", 2)
    assert PRODUCT in list_workflows(layout, "validation-0001-sum", 1)


def test_an_unknown_problem_or_an_empty_round_is_refused(layout: Layout, tmp_path: Path) -> None:
    for asked, near in (("validation", "validation-0001-sum"), ("tain-0000-sun", "train-0000-sum")):
        with pytest.raises(GraftError, match=rf"no workflows of problem '{asked}'; did you mean '{near}'\?"):
            list_workflows(layout, asked, 1)
    with pytest.raises(GraftError, match="no round has been searched yet; run graft retrain"):
        list_workflows(Layout(tmp_path / "new"), "train-0000-sum", None)
    write_jsonl(layout.workflows(1) / "index.jsonl", [])
    with pytest.raises(GraftError, match=r"index\.jsonl: no workflows of problem 'a'$"):
        list_workflows(layout, "a", 1)
