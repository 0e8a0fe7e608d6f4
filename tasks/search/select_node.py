"""Where a tree's next rollout begins, rule by rule (the formulas: rules.py).

The proposer is a policy, which can be asked at any node for something new. A node is open while what its policy has
not tried there (`Node.unexpanded`) is worth a rollout.
"""

from collections.abc import Iterator
from random import Random

import numpy as np

from tasks.search.node import Node
from tasks.search.rules import AFLOW_BEST, Rule, draw_index, puct, soft_mix, uct


def select_node(root: Node, rule: Rule, exploration: float, dice: Random) -> Node | None:
    """The node to go on from; None where no node is open.

    `puct` and `uct` descend; simulations under way count as visits that earned nothing ("virtual loss"), so that a wave
    spreads out. By `dice`, `aflow` draws from the root and the best open nodes, `random` from all open nodes alike.
    `enumerate` takes the open nodes in turn, the oldest first.
    """
    if rule in ("puct", "uct"):
        return _descend(root, rule, exploration)
    open_nodes = [node for node in _preorder(root) if node.unexpanded > 0]
    if not open_nodes:
        return None
    if rule == "random":
        return dice.choice(open_nodes)
    return min(open_nodes, key=lambda node: node.started) if rule == "enumerate" else _mixed(open_nodes, dice)


def _descend(root: Node, rule: Rule, exploration: float) -> Node | None:
    node = root
    while not root.closed:
        best = _best(node, rule, exploration)
        if best is node:
            return node
        node.closed = best is None
        node = best or root
    return None


def _best(node: Node, rule: Rule, exploration: float) -> Node | None:
    """The child to descend to, or `node` itself, where something new is worth more; None where nothing is left below.

    Something new counts like a child that was never visited. Under `puct` its prior is what the children leave of 1,
    and an arm that was never visited has its parent's value ("first play urgency"). `uct` knows no prior and takes
    what is new at once, but only while a node has at most √visits children ("progressive widening", Coulom 2007).
    """
    tried = node.visits + node.pending
    children = [child for child in node.children if not child.closed]
    widens = node.unexpanded > 0 and (rule == "puct" or not children or len(node.children) ** 2 <= tried)
    arms = [node] * widens + children
    if not arms:
        return None
    visits = np.array([0] * widens + [child.visits + child.pending for child in children], dtype=np.float64)
    total = np.array([0.0] * widens + [child.total for child in children])
    value = np.where(visits > 0, total / np.maximum(visits, 1), node.value)
    parent_visits = np.full(len(arms), float(tried))
    if rule == "uct":
        scores = uct(value, parent_visits, visits, exploration)
    else:
        prior = np.array([node.unexpanded] * widens + [child.prior for child in children])
        scores = puct(value, prior, parent_visits, visits, exploration)
    return arms[int(scores.argmax())]


def _mixed(open_nodes: list[Node], dice: Random) -> Node:
    """AFlow's draw; the root, which stands for a fresh start, scores 0."""
    root = [node for node in open_nodes if node.parent is None]
    best = sorted((node for node in open_nodes if node.parent), key=lambda node: -node.value)[:AFLOW_BEST]
    scores = np.array([[0.0] * len(root) + [node.value for node in best]])
    probabilities = soft_mix(scores, np.ones(scores.shape, dtype=bool))
    return [*root, *best][int(draw_index(probabilities, np.array([dice.random()]))[0])]


def _preorder(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))
