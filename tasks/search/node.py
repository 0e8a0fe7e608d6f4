"""The search tree and backpropagation, the same for every proposer and rule.

A node is a partial program. Beside its children it has an `unexpanded` share of prior: what its proposer has not tried yet.
"""

from dataclasses import dataclass, field


@dataclass(eq=False)
class Node:
    """A partial program: the statements from the root to here."""

    statement: str
    parent: "Node | None"
    prior: float  # probability of this statement after the parent's
    unexpanded: float  # prior that the proposer has not turned into children yet; 0: nothing left to try
    depth: int = 0
    terminal: bool = False  # a complete program: nothing can follow
    closed: bool = False  # nothing below can be selected any more
    revision: bool = False  # a whole workflow that was written anew; `statement` says what was changed
    visits: int = 0
    pending: int = 0  # simulations that were started below and whose value is not known yet
    started: int = 0  # simulations that began at this very node
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
        """A new child."""
        child = Node(statement, self, prior, unexpanded, self.depth + 1, terminal, closed=terminal)
        self.children.append(child)
        return child


def begin_simulation(node: Node) -> None:
    """Mark a simulation from `node` as under way."""
    node.started += 1
    for each in _upwards(node):
        each.pending += 1


def backpropagate(node: Node, reward: float, started: Node | None = None) -> None:
    """Add a simulation's reward to `node` and all above it; `started` is the node that `begin_simulation` was called with."""
    for each in _upwards(node):
        each.visits += 1
        each.total += reward
    for each in _upwards(started):
        each.pending -= 1


def _upwards(node: Node | None) -> list[Node]:
    nodes = []
    while node is not None:
        nodes.append(node)
        node = node.parent
    return nodes
