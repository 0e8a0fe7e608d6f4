"""Tree search with the policy as prior: nodes are prefixes that the policy wrote, cut where a statement ends.

The first wave of a tree is independent samples from the policy. From then on a rule chooses a prefix, the policy
completes it, and the completion's statements become nodes. A statement's prior is the policy's own probability of
its tokens; what the children of a node leave of 1 is the chance that sampling there brings something new, so the
tree widens exactly as far as the policy is unsure.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp
from random import Random

from tasks.programs.answer_check import failure_reason
from tasks.records import Completion, Problem, Result
from tasks.search.node import Node, backpropagate, begin_simulation
from tasks.search.rules import Rule
from tasks.search.select_node import select_node
from tasks.seeds import derive_seed

NEGLIGIBLE = 1e-3  # an unexpanded share below this is not worth a rollout


@dataclass
class Rollout:
    """A completion that was asked for: `from_node` None is an independent sample."""

    from_node: Node | None
    row: int  # counts the tree's completions; names its random numbers


@dataclass
class FoundWorkflow:
    """A distinct workflow of one problem."""

    code: str
    results: list[Result]
    reward: float
    leaf: Node
    from_node: Node | None
    samples: list[Completion] = field(default_factory=list)  # independent
    rollouts: list[Completion] = field(default_factory=list)  # from inside the tree
    revised: list[Completion] = field(default_factory=list)  # of a revision, where the policy can learn it
    revisions: int = 0  # that wrote it
    perturbed: list[Result] = field(default_factory=list)  # on the perturbed questions; without siblings only


class PolicyTree:
    """The search tree of one problem."""

    def __init__(
        self,
        problem: Problem,
        ends_statement: Callable[[int], bool],
        text_of: Callable[[list[int]], str],
        longest: int,
    ) -> None:
        self.problem = problem
        self.root = Node("", None, 1.0, unexpanded=1.0)
        self.workflows: dict[str, FoundWorkflow] = {}
        self.completions = 0
        self.right = 0  # completions that earned all
        self.revision_counts: Counter[str] = Counter()  # what became of its revisions
        self._ends_statement, self._text_of, self._longest = ends_statement, text_of, longest
        self._prefix = {self.root: Completion(tokens=[], logprobs=[])}
        self._child: dict[tuple[Node, tuple[int, ...]], Node] = {}

    @property
    def size(self) -> int:
        """Nodes, the root among them."""
        return len(self._prefix)

    def prefix(self, node: Node | None) -> Completion:
        """What the policy wrote from the root to `node`."""
        return self._prefix[node or self.root]

    def samples(self, count: int) -> list[Rollout]:
        """The first wave."""
        return [Rollout(None, self._next_row()) for _ in range(count)]

    def propose(
        self, wave: int, exploration: float, rule: Rule = "puct", seed: int = 0, stop_at: int = 0
    ) -> list[Rollout]:
        """Up to `wave` rollouts; none where every completion so far is right, or nothing is left to try.

        None either once `stop_at` completions are right, where it is not 0.
        """
        rollouts: list[Rollout] = []
        if 0 < stop_at <= self.right:
            return rollouts
        while len(rollouts) < wave and self.root.value < 1.0:
            dice = Random(derive_seed(seed, "choose", self.problem.problem_id, self.completions))
            node = select_node(self.root, rule, exploration, dice)
            if node is None:
                break
            begin_simulation(node)
            rollouts.append(Rollout(node, self._next_row()))
        return rollouts

    def credit(self, results: list[Result], reward: float) -> float:
        """What the tree's means learn: the reward; where nobody knows it the mean so far, neither for nor against."""
        return reward if failure_reason(results) is None else self.root.value

    @property
    def solved(self) -> bool:
        """Whether a workflow is right on the problem and all siblings."""
        return any(found.reward == 1.0 for found in self.workflows.values())

    def update(self, rollout: Rollout, completion: Completion, code: str, results: list[Result], reward: float) -> None:
        """Take in what a completion gave; `reward` is the share of the problem and its siblings that it solves."""
        leaf = self._grow(rollout.from_node or self.root, completion)
        backpropagate(leaf, self.credit(results, reward), started=rollout.from_node)
        self.right += reward == 1.0
        found = self.workflows.setdefault(code, FoundWorkflow(code, results, reward, leaf, rollout.from_node))
        (found.samples if rollout.from_node is None else found.rollouts).append(completion)

    def _grow(self, node: Node, completion: Completion) -> Node:
        """Nodes for the completion's statements below `node`; returns the leaf."""
        begin = len(self._prefix[node].tokens)
        for end in self._borders(completion.tokens, begin):
            tokens, logprobs = completion.tokens[begin:end], completion.logprobs[begin:end]
            child = self._child.get((node, tuple(tokens)))
            if child is None:
                terminal = end == len(completion.tokens)
                unexpanded = 0.0 if terminal or end >= self._longest else 1.0
                child = node.add(self._text_of(tokens), exp(sum(logprobs)), unexpanded, terminal)
                self._child[node, tuple(tokens)] = child
                self._prefix[child] = Completion(tokens=completion.tokens[:end], logprobs=completion.logprobs[:end])
                left = node.unexpanded - child.prior
                node.unexpanded = left if left > NEGLIGIBLE else 0.0
            node, begin = child, end
        return node

    def _borders(self, tokens: list[int], begin: int) -> list[int]:
        inner = [i + 1 for i in range(begin, len(tokens) - 1) if self._ends_statement(tokens[i])]
        return [*inner, len(tokens)]

    def _next_row(self) -> int:
        self.completions += 1
        return self.completions - 1
