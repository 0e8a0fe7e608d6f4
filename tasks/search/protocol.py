"""Protocol of a rule of the search: the node that the policy continues from, and the numbers that nodes keep.

Monte Carlo tree search has four phases (Browne et al. 2012, "A Survey of Monte Carlo Tree Search Methods", 3.1).
Selection, expansion and backpropagation are a rule's methods; simulation is the policy's completion and its run in the
sandbox. `rules.py` has the built-in rules.
"""

from abc import abstractmethod
from random import Random
from typing import Protocol

from tasks.search.node import Node, backpropagate

NEGLIGIBLE = 1e-3  # unexpanded prior below this is taken as 0


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
