"""Selection of the node that the next rollout starts from, by rule (formulas: rules.py).

A node is open while its `unexpanded` prior is above 0: a policy can propose a new statement at any node.
"""

from collections.abc import Iterator
from random import Random

import numpy as np

from tasks.search.node import Node
from tasks.search.rules import AFLOW_BEST, Rule, draw_index, puct, soft_mix, uct


def select_node(root: Node, rule: Rule, exploration: float, rng: Random) -> Node | None:
    """The node to continue from; None if no node is open.

    `puct` and `uct` descend; pending simulations count as visits with reward 0 ("virtual loss"), so that a wave spreads
    out. With `rng`, `aflow` draws from the root and the best open nodes, `random` from all open nodes uniformly.
    `enumerate` takes the open nodes in turn, the oldest first.
    """
    if rule in ("puct", "uct"):
        return _descend(root, rule, exploration)
    open_nodes = [node for node in _preorder(root) if node.unexpanded > 0]
    if not open_nodes:
        return None
    if rule == "random":
        return rng.choice(open_nodes)
    return min(open_nodes, key=lambda node: node.started) if rule == "enumerate" else _draw_soft_mix(open_nodes, rng)


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
    """The child to descend to, or `node` itself to expand it; None if no node below is open.

    Expansion counts as an unvisited child. With `puct` its prior is `node.unexpanded`, and an unvisited child has its
    parent's value ("first play urgency"). `uct` has no prior and expands at once, but only while a node has at most
    √visits children ("progressive widening", Coulom 2007).
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


def _draw_soft_mix(open_nodes: list[Node], rng: Random) -> Node:
    """AFlow's draw; the root, a fresh start, scores 0."""
    root = [node for node in open_nodes if node.parent is None]
    best = sorted((node for node in open_nodes if node.parent), key=lambda node: -node.value)[:AFLOW_BEST]
    scores = np.array([[0.0] * len(root) + [node.value for node in best]])
    probabilities = soft_mix(scores, np.ones(scores.shape, dtype=bool))
    return [*root, *best][int(draw_index(probabilities, np.array([rng.random()]))[0])]


def _preorder(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))
