"""Rules of the search: the node that the policy continues from, and the numbers that nodes keep.

Monte Carlo tree search has four phases (Browne et al. 2012, "A Survey of Monte Carlo Tree Search Methods", 3.1).
Selection, expansion and backpropagation are a rule's methods; simulation is the policy's completion and its run in the
sandbox.
"""

from abc import abstractmethod
from math import inf
from pathlib import Path
from random import Random
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tasks.errors import GraftError
from tasks.params.sections import Search
from tasks.search.node import Node, backpropagate, open_nodes
from tasks.sources.user_code import find_modules_in, new_instance

ArmValues = NDArray[np.float64]
"""A number of each arm [A]."""

NEGLIGIBLE = 1e-3
"""Unexpanded prior below this is taken as 0: rounding, or statements that are hardly ever sampled."""


class Rule(Protocol):
    """One for each tree, so a rule may keep a state. Inherited, it expands and updates as PUCT does."""

    exploration: float = 0.0
    """The param `search.exploration`, set when the rule is made."""

    @abstractmethod
    def choose(self, root: Node, rng: Random) -> Node | None:
        """Selection: an open node of the tree, one with `unexpanded` above 0; None if there is none.

        `pending` counts the simulations that began at a node or below it and are not finished. `rng` is seeded by the
        problem and the number of the completion.
        """

    def expand(self, child: Node) -> None:
        """Expansion: `child` is a new node, whose prior is the policy's probability of its statement."""
        parent = child.parent
        assert parent is not None
        left = parent.unexpanded - child.prior
        parent.unexpanded = left if left > NEGLIGIBLE else 0.0

    def update(self, leaf: Node, reward: float) -> None:
        """Backpropagation of a completion's reward, in [0, 1], from its last node."""
        backpropagate(leaf, reward)


class Descent(Rule):
    """Selection from the root down, by the highest score of a node's arms: its open children, and its expansion.

    Expansion counts as a child without visits. An unvisited child has its parent's value ("first play urgency"), and
    pending simulations count as visits with reward 0 ("virtual loss"), so that a wave spreads out.
    """

    def choose(self, root: Node, rng: Random) -> Node | None:  # noqa: ARG002
        """The node to continue from; None if no node is open."""
        node = root
        while not root.closed:
            best = self._best(node)
            if best is node:
                return node
            # A node whose children are all closed is closed now, and the descent begins again without it.
            node.closed = best is None
            node = best or root
        return None

    def _best(self, node: Node) -> Node | None:
        """The child to descend to, or `node` itself to expand it; None if no node below is open."""
        children = [child for child in node.children if not child.closed]
        widens = node.unexpanded > 0 and self._widens(node, children)
        arms = [node] * widens + children
        if not arms:
            return None
        visits = np.array([0] * widens + [child.visits + child.pending for child in children], dtype=np.float64)
        total = np.array([0.0] * widens + [child.total for child in children])
        value = np.where(visits > 0, total / np.maximum(visits, 1), node.value)
        prior = np.array([node.unexpanded] * widens + [child.prior for child in children])
        scores = self._scores(value, prior, visits, float(node.visits + node.pending))
        return arms[int(scores.argmax())]

    def _widens(self, node: Node, children: list[Node]) -> bool:  # noqa: ARG002
        """Whether expansion is one of the arms of a node that can be expanded."""
        return True

    @abstractmethod
    def _scores(self, value: ArmValues, prior: ArmValues, visits: ArmValues, parent_visits: float) -> ArmValues:
        """The score of each arm [A], from value, prior and visits [A]."""


class Puct(Descent):
    """Q + c · P · √N(parent) / (1 + n)  (Silver et al. 2017, AlphaGo Zero, Methods, "Select")."""

    def _scores(self, value: ArmValues, prior: ArmValues, visits: ArmValues, parent_visits: float) -> ArmValues:
        scores: ArmValues = value + self.exploration * prior * np.sqrt(parent_visits) / (1 + visits)
        return scores


class Uct(Descent):
    """Q + c · √(ln N(parent) / n), infinite where n = 0: UCB1 in each node  (Kocsis & Szepesvári 2006, UCT).

    It has no prior. As a node has no end of children, it is expanded only while it has at most √N of them ("progressive
    widening", Coulom 2007).
    """

    def _widens(self, node: Node, children: list[Node]) -> bool:
        return not children or len(node.children) ** 2 <= node.visits + node.pending

    def _scores(self, value: ArmValues, prior: ArmValues, visits: ArmValues, parent_visits: float) -> ArmValues:  # noqa: ARG002
        bonus = self.exploration * np.sqrt(np.log(max(parent_visits, 1.0)) / np.maximum(visits, 1))
        return np.where(visits > 0, value + bonus, inf)


class Uniform(Rule):
    """Any open node, all with the same probability."""

    def choose(self, root: Node, rng: Random) -> Node | None:
        """An open node, drawn with `rng`; None if there is none."""
        nodes = open_nodes(root)
        return rng.choice(nodes) if nodes else None


BUILT_IN: dict[str, type[Rule]] = {"puct": Puct, "uct": Uct, "random": Uniform}
"""Value of `search.rule` → rule."""


def rule_of(search: Search, root: Path | None) -> Rule:
    """A new instance of the rule that the params name; `root`: the project's folder, where a user's own is.

    Raises GraftError if there is none.
    """
    rule = BUILT_IN[search.rule]() if search.rule in BUILT_IN else _user_rule(search.rule, root)
    rule.exploration = search.exploration
    return rule


def _user_rule(name: str, root: Path | None) -> Rule:
    find_modules_in(root, name)
    rule: Rule = new_instance("search.rule", name)
    missing = [method for method in ("choose", "expand", "update") if not callable(getattr(rule, method, None))]
    if missing:
        raise GraftError(f"search.rule: {name} has no {missing[0]}; let it inherit tasks.search.rules.Rule")
    return rule
