"""Writing what a search found: the workflows in `index.jsonl`, the trees in `trees.jsonl`."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from tasks.artifacts import line_of, whole_file, whole_folder
from tasks.records import TreeNode, Workflow
from tasks.search.tree import Node

Part = tuple[Iterable[Workflow], Iterable[TreeNode]]
"""Of some problems the workflows, and the nodes of the trees."""


def write_workflows(folder: Path, parts: Iterable[Part]) -> None:
    """Write part after part: no more than one need be in memory. The folder appears whole or not at all."""
    with (
        whole_folder(folder) as new,
        whole_file(new / "index.jsonl") as index,
        whole_file(new / "trees.jsonl") as trees,
    ):
        for found, nodes in parts:
            for workflow in found:
                index.write(line_of(workflow))
            for node in nodes:
                trees.write(line_of(node))


def tree_records(problem_id: str, root: Node) -> Iterator[TreeNode]:
    """The tree in preorder.

    Leaves that one simulation tried and that earned nothing are left out: they are most of a cold search's tree.
    Revisions stay: each says in words what did not help.
    """
    stack = [root]
    while stack:
        node = stack.pop()
        yield TreeNode(
            problem_id=problem_id,
            node_id=node_id(node),
            parent_id=node_id(node.parent) if node.parent else None,
            statement=node.statement,
            depth=node.depth,
            visits=node.visits,
            value=round(node.value, 6),
            prior=round(node.prior, 6),
            terminal=node.terminal,
        )
        stack.extend(child for child in reversed(node.children) if _tells(child))


def node_id(node: Node) -> str:
    """The path of child numbers to a node: `0.3.1` is the second child of the root's fourth child."""
    steps = [each.parent.children.index(each) for each in node.path() if each.parent]
    return ".".join(map(str, [0, *steps]))


def _tells(node: Node) -> bool:
    return bool(node.children) or node.visits > 1 or node.total > 0 or node.revision
