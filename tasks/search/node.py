"""Node of a Monte Carlo tree search, backpropagation, and the records of a tree."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tasks.records.search import TreeNode


@dataclass(eq=False)
class Node:
    """A partial program: the statements from the root to here."""

    statement: str
    parent: "Node | None"
    prior: float  # probability of this statement after the parent's
    unexpanded: float  # prior not covered by children yet; 0: fully expanded
    depth: int = 0
    terminal: bool = False  # a complete program
    closed: bool = False  # no node below can be selected
    visits: int = 0
    pending: int = 0  # simulations through this node that are not backed up yet
    total: float = 0.0
    children: "list[Node]" = field(default_factory=list)

    @property
    def value(self) -> float:
        """Mean reward of the simulations through this node; 0 before the first."""
        return self.total / self.visits if self.visits else 0.0

    def add(self, statement: str, prior: float, unexpanded: float, terminal: bool = False) -> "Node":
        child = Node(statement, self, prior, unexpanded, self.depth + 1, terminal, closed=terminal)
        self.children.append(child)
        return child


def begin_simulation(node: Node) -> None:
    """Count a simulation from `node` as pending."""
    for ancestor in _with_ancestors(node):
        ancestor.pending += 1


def end_simulation(node: Node) -> None:
    """Count a simulation from `node` as no longer pending."""
    for ancestor in _with_ancestors(node):
        ancestor.pending -= 1


def backpropagate(node: Node, reward: float) -> None:
    """Add a reward to `node` and its ancestors."""
    for ancestor in _with_ancestors(node):
        ancestor.visits += 1
        ancestor.total += reward


def open_nodes(root: Node) -> list[Node]:
    """The nodes that can be expanded, in preorder."""
    nodes, stack = [], [root]
    while stack:
        node = stack.pop()
        nodes += [node] if node.unexpanded > 0 else []
        stack.extend(reversed(node.children))
    return nodes


def _with_ancestors(node: Node | None) -> list[Node]:
    nodes = []
    while node is not None:
        nodes.append(node)
        node = node.parent
    return nodes


def tree_records(problem_id: str, root: Node) -> Iterator[TreeNode]:
    """The lines of `trees.jsonl`: the tree in preorder, without leaves of one visit and reward 0, most of all."""
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
    steps = [child.parent.children.index(child) for child in _with_ancestors(node) if child.parent]
    return ".".join(map(str, [0, *reversed(steps)]))


def _is_informative(node: Node) -> bool:
    return bool(node.children) or node.visits > 1 or node.total > 0
