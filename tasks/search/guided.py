"""Tree search with the policy as prior: nodes are prefixes that the policy wrote, cut where a statement ends.

The first wave of a tree is independent samples from the policy. From then on PUCT selects a prefix, the policy
completes it, and the completion's statements become nodes. A statement's prior is the policy's own probability of
its tokens; what the children of a node leave of 1 is the chance that sampling there brings something new, so the
tree widens exactly as far as the policy is unsure.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp

from tasks.records import Completion, Problem, Result
from tasks.search.tree import Node, backpropagate, select, start

NEGLIGIBLE = 1e-3  # an unseen share below this is not worth a rollout


@dataclass
class Rollout:
    """A completion that was asked for: `from_node` None is an independent sample."""

    from_node: Node | None
    row: int  # counts the tree's completions; names its random numbers


@dataclass
class Found:
    """A distinct workflow of one problem."""

    code: str
    results: list[Result]
    reward: float
    leaf: Node
    from_node: Node | None
    samples: list[Completion] = field(default_factory=list)  # independent
    rollouts: list[Completion] = field(default_factory=list)  # from inside the tree
    perturbed: list[Result] = field(default_factory=list)  # on the perturbed questions; without siblings only


class GuidedTree:
    """The search tree of one problem."""

    def __init__(
        self,
        problem: Problem,
        ends_statement: Callable[[int], bool],
        text_of: Callable[[list[int]], str],
        longest: int,
    ) -> None:
        self.problem = problem
        self.root = Node("", None, 1.0, unseen=1.0)
        self.found: dict[str, Found] = {}
        self.rows = 0
        self._ends_statement, self._text_of, self._longest = ends_statement, text_of, longest
        self._prefix = {self.root: Completion(tokens=[], logprobs=[])}
        self._child: dict[tuple[Node, tuple[int, ...]], Node] = {}

    def prefix(self, node: Node | None) -> Completion:
        """What the policy wrote from the root to `node`."""
        return self._prefix[node or self.root]

    def samples(self, count: int) -> list[Rollout]:
        """The first wave."""
        return [Rollout(None, self._next_row()) for _ in range(count)]

    def propose(self, wave: int, exploration: float) -> list[Rollout]:
        """Up to `wave` rollouts; none where every completion so far is right, or nothing is left to try."""
        rollouts: list[Rollout] = []
        while len(rollouts) < wave and self.root.value < 1.0:
            node = select(self.root, exploration)
            if node is None:
                break
            start(node)
            rollouts.append(Rollout(node, self._next_row()))
        return rollouts

    def learn(self, rollout: Rollout, completion: Completion, code: str, results: list[Result], reward: float) -> None:
        """Take in what a completion gave."""
        leaf = self._grow(rollout.from_node or self.root, completion)
        backpropagate(leaf, reward, started=rollout.from_node)
        found = self.found.setdefault(code, Found(code, results, reward, leaf, rollout.from_node))
        (found.samples if rollout.from_node is None else found.rollouts).append(completion)

    def _grow(self, node: Node, completion: Completion) -> Node:
        """Nodes for the completion's statements below `node`; returns the leaf."""
        begin = len(self._prefix[node].tokens)
        for end in self._borders(completion.tokens, begin):
            tokens, logprobs = completion.tokens[begin:end], completion.logprobs[begin:end]
            child = self._child.get((node, tuple(tokens)))
            if child is None:
                terminal = end == len(completion.tokens)
                unseen = 0.0 if terminal or end >= self._longest else 1.0
                child = node.add(self._text_of(tokens), exp(sum(logprobs)), unseen, terminal)
                self._child[node, tuple(tokens)] = child
                self._prefix[child] = Completion(tokens=completion.tokens[:end], logprobs=completion.logprobs[:end])
                left = node.unseen - child.prior
                node.unseen = left if left > NEGLIGIBLE else 0.0
            node, begin = child, end
        return node

    def _borders(self, tokens: list[int], begin: int) -> list[int]:
        inner = [i + 1 for i in range(begin, len(tokens) - 1) if self._ends_statement(tokens[i])]
        return [*inner, len(tokens)]

    def _next_row(self) -> int:
        self.rows += 1
        return self.rows - 1
