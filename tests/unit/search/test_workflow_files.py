"""What a search writes: workflows and trees."""

from pathlib import Path

from tasks.artifacts import read_jsonl
from tasks.programs.workflow_files import write_workflows
from tasks.records.search import AskedProblem, TreeNode, Workflow
from tasks.search.node import Node, backpropagate, node_id, tree_records
from tests.support.records import make_workflow, question_of

CODE = "def solve(problem):\n    return 'ü\r'\n"


def tree() -> Node:
    """Of the root's children the second was tried once and earned nothing."""
    root = Node("", None, 1.0, 0.1)
    first, second, third = (root.add(name, 0.3, 1.0) for name in ("a", "b", "c"))
    end = third.add("d", 0.123456789, 0.0, terminal=True)
    for node, reward in ((first, 1 / 3), (second, 0.0), (end, 0.0)):
        backpropagate(node, reward)
    return root


def test_workflows_and_trees_read_back(tmp_path: Path) -> None:
    records, nodes = [make_workflow(CODE), make_workflow("x")], list(tree_records("p", tree()))
    asked = AskedProblem(split="train", problem=question_of("2 + 3?", 5), prompt="2 + 3?\n", prompt_tokens=[1, 2])
    write_workflows(tmp_path / "workflows", [([asked], records[:1], nodes[:1]), ([], records[1:], nodes[1:])])
    assert read_jsonl(tmp_path / "workflows/problems.jsonl", AskedProblem) == [asked]
    assert read_jsonl(tmp_path / "workflows/index.jsonl", Workflow) == records
    assert read_jsonl(tmp_path / "workflows/trees.jsonl", TreeNode) == nodes
    assert {file.name for file in (tmp_path / "workflows").iterdir()} == {
        "index.jsonl",
        "problems.jsonl",
        "trees.jsonl",
    }


def test_trees_are_written_in_preorder_without_uninformative_leaves() -> None:
    root = tree()
    rows = list(tree_records("p", root))
    assert [(r.node_id, r.parent_id, r.statement, r.depth, r.visits) for r in rows] == [
        ("0", None, "", 0, 3),
        ("0.0", "0", "a", 1, 1),
        ("0.2", "0", "c", 1, 1),  # its child earned nothing, but it shows how far the search came
    ]
    assert (rows[0].value, rows[1].value) == (0.111111, 0.333333)
    assert (node_id(root), node_id(root.children[2].children[0])) == ("0", "0.2.0")
