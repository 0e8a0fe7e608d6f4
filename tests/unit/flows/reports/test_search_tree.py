"""What `graft tree` draws."""

from pathlib import Path

import pytest
from rich.console import Console

from flows.reports.search_tree import draw_tree
from tasks.layout import Layout
from tasks.programs.workflow_files import write_workflows
from tasks.records import AskedProblem, Problem, TreeNode


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
