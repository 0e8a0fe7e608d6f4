"""Records of a search tree, the lines of `trees.jsonl`."""

from collections.abc import Iterator

from tasks.records import TreeNode
from tasks.search.node import Node


def tree_records(problem_id: str, root: Node) -> Iterator[TreeNode]:
    """The tree in preorder, without leaves of one visit and reward 0: they are most of a cold search's tree.

    Revisions are kept, as each describes a change in words.
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
        stack.extend(child for child in reversed(node.children) if _is_informative(child))


def node_id(node: Node) -> str:
    """The path of child numbers to a node: `0.3.1` is the second child of the root's fourth child."""
    steps = [each.parent.children.index(each) for each in node.path() if each.parent]
    return ".".join(map(str, [0, *steps]))


def _is_informative(node: Node) -> bool:
    return bool(node.children) or node.visits > 1 or node.total > 0 or node.revision
