"""What `graft tree` draws and `graft workflows` prints."""

from pathlib import Path

import pytest
from rich.console import Console

from flows.reports.search_tree import draw_tree, list_workflows, write_workflow_files
from tasks.artifacts import write_jsonl, write_text
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.programs.contract import workflow_id
from tasks.programs.workflow_files import write_workflows
from tasks.records.problems import Problem, Split
from tasks.records.programs import Result
from tasks.records.search import AskedProblem, TreeNode, Workflow
from tests.support.records import make_workflow


def node(problem: str, name: str, statement: str, visits: int, value: float, prior: float) -> TreeNode:
    place = {"node_id": name, "parent_id": name.rpartition(".")[0] or None, "depth": name.count(".")}
    numbers = {"visits": visits, "value": value, "prior": prior}
    return TreeNode(problem_id=problem, statement=statement, terminal=False, **place, **numbers)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path)
    names = ("train-0000-sum", "train-0001-sum")
    for round in (1, 2, 10):
        nodes = [
            node("train-0001-sum", "0", "", 9, 0.5, 1.0),
            node("train-0000-sum", "0", "", 4 + round, 0.25, 1.0),
            node("train-0000-sum", "0.0", "a = n[0] + n[1]", 3, 0.5, 0.75),
            node("train-0000-sum", "0.0.0", "return a", 1, 1.0, 0.9),
            node("train-0000-sum", "0.1", "a = [bold]n[0]", 1, 0.0, 0.05),
        ]
        write_workflows(made.workflows(round), [([asked(name, round) for name in names], [], nodes)])
    return made


def asked(name: str, round: int) -> AskedProblem:
    question, answer = ("5 and [6]?", 11) if round % 2 else ("2 and [3]?", 5)
    problem = Problem(problem_id=name, question=question, answer=answer, source="test")
    return AskedProblem(split="train", problem=problem, prompt=question, prompt_tokens=[5])


def text_of(layout: Layout, problem_id: str, round: int | None = None) -> str:
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(draw_tree(layout, problem_id, round), highlight=False)
    return capture.get()


def test_the_tree_is_drawn_with_its_numbers(layout: Layout) -> None:
    assert text_of(layout, "train-0000-sum", 2).splitlines() == [
        "2 and [3]? = 5; round 2",
        "├── 6 completions, mean reward 0.25",
        "├── a = n[0] + n[1]  ×3  value 0.50  p 0.75",
        "│   └── return a  ×1  value 1.00  p 0.9",
        "└── a = [bold]n[0]  ×1  value 0.00  p 0.05",
    ]


def test_each_round_has_its_question_and_the_last_is_the_default(layout: Layout) -> None:
    assert text_of(layout, "train-0000-sum", 1).startswith("5 and [6]? = 11; round 1\n")
    assert "round 10" in text_of(layout, "train-0001-sum")


SUM, PRODUCT, BROKEN = (f"def solve(problem):\n    return {text}\n" for text in ("2 + 3", "2 * 3", "\x1b[2J("))


def workflow(problem: str, code: str, value: float, prior: float, split: Split = "train") -> Workflow:
    failed, right = Result(status="error", error="SyntaxError: '(' was never\nclosed"), Result(status="ok", value=5)
    result = failed if code == BROKEN else right
    return make_workflow(code, problem_id=problem, split=split, visits=3, value=value, prior=prior, result=result)


@pytest.fixture
def searched(tmp_path: Path) -> Layout:
    made = Layout(tmp_path)
    for round in (1, 2, 10):
        found = [workflow("train-0000-sum", BROKEN, 0, 0.5), workflow("train-0000-sum", PRODUCT, 1, 0.25)]
        found += [workflow("train-0000-sum", SUM, 1, 0.75)] if round == 10 else []
        found += [workflow("validation-0001-sum", PRODUCT, 0, 1.0, "validation")]
        write_jsonl(made.workflows(round) / "index.jsonl", found)
        write_text(made.workflows(round) / "trees.jsonl", "")
    return made


def test_the_best_and_likeliest_come_first_with_their_numbers_as_python(searched: Layout) -> None:
    assert list_workflows(searched, "train-0000-sum", None) == (
        f"# {workflow_id(SUM)}  value 1.00  ×3  p 0.75  sample\n{SUM}\n"
        f"# {workflow_id(PRODUCT)}  value 1.00  ×3  p 0.25  sample\n{PRODUCT}\n"
        f"# {workflow_id(BROKEN)}  value 0.00  ×3  p 0.5  sample  SyntaxError: '(' was never closed\n"
        "def solve(problem):\n    return \ufffd[2J(\n"
    )
    valid = list_workflows(searched, "train-0000-sum", 10).partition(f"# {workflow_id(BROKEN)}")[0]
    compile(valid, "printed", "exec")


def test_each_workflow_of_a_run_is_a_file_the_best_of_a_problem_first(searched: Layout, tmp_path: Path) -> None:
    folder = tmp_path / "found"
    assert write_workflow_files(searched, None, None, folder) == 4
    printed = list_workflows(searched, "train-0000-sum", 10)
    assert "\n".join((folder / f"train-0000-sum-{rank}.py").read_text() for rank in (1, 2, 3)) == printed
    assert (folder / "validation-0001-sum-1.py").read_text().endswith(PRODUCT)
    assert len(list(folder.iterdir())) == 4
    assert write_workflow_files(searched, "train-0000-sum", 1, tmp_path / "one") == 2
    assert sorted(file.name for file in (tmp_path / "one").iterdir()) == ["train-0000-sum-1.py", "train-0000-sum-2.py"]


def test_a_workflow_of_several_rounds_is_as_in_the_best_and_nothing_is_overwritten(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    for round, value in ((1, 0.5), (2, 1.0), (3, 0.25)):
        found = [workflow("p", SUM, value, 0.1 * round), *(workflow("p", f"{SUM}# {n}", 0, 0.5) for n in range(9))]
        write_jsonl(layout.workflows(round) / "index.jsonl", found)
        write_text(layout.workflows(round) / "trees.jsonl", "")
    folder = tmp_path / "found"
    folder.mkdir()
    assert write_workflow_files(layout, None, None, folder) == 10
    assert (folder / "p-01.py").read_text() == f"# {workflow_id(SUM)}  value 1.00  ×3  p 0.2  sample\n{SUM}"
    for taken in (folder, folder / "p-01.py"):
        with pytest.raises(GraftError, match=rf"^{taken}: is there and not an empty folder; name another one$"):
            write_workflow_files(layout, None, None, taken)
    with pytest.raises(GraftError, match="no round has been searched yet"):
        write_workflow_files(Layout(tmp_path / "new"), None, None, tmp_path / "none")


def test_only_the_chosen_round_is_listed(searched: Layout) -> None:
    assert SUM not in list_workflows(searched, "train-0000-sum", 2)
    assert PRODUCT in list_workflows(searched, "validation-0001-sum", 1)


def test_an_unknown_problem_or_an_empty_round_is_refused(searched: Layout, tmp_path: Path) -> None:
    for asked, near in (("validation", "validation-0001-sum"), ("tain-0000-sun", "train-0000-sum")):
        with pytest.raises(GraftError, match=rf"no workflows of problem '{asked}'; did you mean '{near}'\?"):
            list_workflows(searched, asked, 1)
    with pytest.raises(GraftError, match="no round has been searched yet; run graft retrain"):
        list_workflows(Layout(tmp_path / "new"), "train-0000-sum", None)
    write_jsonl(searched.workflows(1) / "index.jsonl", [])
    with pytest.raises(GraftError, match=r"index\.jsonl: no workflows of problem 'a'$"):
        list_workflows(searched, "a", 1)
