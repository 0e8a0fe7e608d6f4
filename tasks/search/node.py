"""Node of a search tree, and backpropagation; the same for every proposer and selection rule."""

from dataclasses import dataclass, field


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
    revision: bool = False  # a rewritten workflow; `statement` describes the change
    visits: int = 0
    pending: int = 0  # simulations through this node that are not backed up yet
    started: int = 0  # simulations that began at this node
    total: float = 0.0
    children: "list[Node]" = field(default_factory=list)

    @property
    def value(self) -> float:
        """Mean reward of the simulations through this node; 0 before the first."""
        return self.total / self.visits if self.visits else 0.0

    def path(self) -> "list[Node]":
        """Nodes from the root's child to this one."""
        nodes: list[Node] = []
        node = self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    def add(self, statement: str, prior: float, unexpanded: float, terminal: bool = False) -> "Node":
        """Append a child."""
        child = Node(statement, self, prior, unexpanded, self.depth + 1, terminal, closed=terminal)
        self.children.append(child)
        return child


def begin_simulation(node: Node) -> None:
    """Count a simulation from `node` as pending."""
    node.started += 1
    for each in _with_ancestors(node):
        each.pending += 1


def backpropagate(node: Node, reward: float, started: Node | None = None) -> None:
    """Add a reward to `node` and its ancestors; `started` is the node passed to `begin_simulation`."""
    for each in _with_ancestors(node):
        each.visits += 1
        each.total += reward
    for each in _with_ancestors(started):
        each.pending -= 1


def _with_ancestors(node: Node | None) -> list[Node]:
    nodes = []
    while node is not None:
        nodes.append(node)
        node = node.parent
    return nodes
