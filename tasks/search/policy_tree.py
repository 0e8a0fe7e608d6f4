"""Tree of one problem in Monte Carlo tree search (MCTS), with the policy as prior.

Nodes are prefixes of completions, cut at statement ends.

The first wave is independent samples from the policy. After that a rule selects a prefix, the policy completes it (the
simulation), the statements of the completion become nodes, and its reward is backed up. The prior of a statement is the
policy's probability of its tokens. One minus the priors of a node's children is the probability that sampling there
gives a new statement, so the tree is as wide as the policy is uncertain.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp
from random import Random

from tasks.errors import GraftError
from tasks.programs.answer_check import failure_reason
from tasks.records.programs import Result
from tasks.records.search import AskedProblem, Completion
from tasks.search.node import Node, begin_simulation, end_simulation
from tasks.search.rules import Rule
from tasks.seeds import derive_seed

WAVE_SIZE = 4
"""Rollouts that a tree starts before their results are backpropagated: more fill a batch, fewer know more."""


@dataclass
class Rollout:
    """A requested completion; `from_node` None: an independent sample."""

    from_node: Node | None
    row: int  # number of the completion in its tree, part of its seed


@dataclass
class FoundWorkflow:
    """A distinct workflow of one problem."""

    code: str
    results: list[Result]
    reward: float
    leaf: Node
    from_node: Node | None
    samples: list[Completion] = field(default_factory=list)  # independent ones
    rollouts: list[Completion] = field(default_factory=list)  # those that continue a node
    perturbed_results: list[Result] = field(default_factory=list)  # only of problems without siblings

    @property
    def completions(self) -> list[Completion]:
        """All of them, the independent samples first."""
        return self.samples + self.rollouts


class PolicyTree:
    """The search tree of one problem."""

    def __init__(
        self,
        asked: AskedProblem,
        ends_statement: Callable[[int], bool],
        text_of: Callable[[list[int]], str],
        longest: int,
        rule: Rule,
        seed: int = 0,
    ) -> None:
        self.rule, self._seed = rule, seed
        self.asked, self.problem = asked, asked.problem
        self.root = Node("", None, 1.0, unexpanded=1.0)
        self.workflows: dict[str, FoundWorkflow] = {}
        self.completions = 0
        self.right = 0  # completions with reward 1
        self._ends_statement, self._text_of, self._longest = ends_statement, text_of, longest
        self._prefix = {self.root: Completion(tokens=[], logprobs=[])}
        self._child: dict[tuple[Node, tuple[int, ...]], Node] = {}

    @property
    def size(self) -> int:
        """Number of nodes, the root included."""
        return len(self._prefix)

    def prefix(self, node: Node | None) -> Completion:
        """The tokens from the root to `node`."""
        return self._prefix[node or self.root]

    def samples(self, count: int) -> list[Rollout]:
        """Independent samples, the first wave."""
        return [Rollout(None, self._next_row()) for _ in range(count)]

    def propose(self, wave: int) -> list[Rollout]:
        """Up to `wave` rollouts; [] if every completion so far is right or no node is open."""
        rollouts: list[Rollout] = []
        while len(rollouts) < wave and self.root.value < 1.0:
            node = self._choose()
            if node is None:
                break
            begin_simulation(node)
            rollouts.append(Rollout(node, self._next_row()))
        return rollouts

    def _choose(self) -> Node | None:
        seed = derive_seed(self._seed, "choose", self.problem.problem_id, self.completions)
        node = self.rule.choose(self.root, Random(seed))
        if node is not None and node.unexpanded <= 0:
            raise GraftError(
                f"search.rule: {type(self.rule).__name__}.choose returned a node that cannot be expanded; return one "
                "of tasks.search.node.open_nodes(root), or None"
            )
        return node

    @property
    def solved(self) -> bool:
        """True if some workflow is right on the problem and all siblings."""
        return any(workflow.reward == 1.0 for workflow in self.workflows.values())

    def update(self, rollout: Rollout, completion: Completion, code: str, results: list[Result], reward: float) -> None:
        """Expand and back up one completion; `reward` is the share of the problem and its siblings that it solves.

        Where the results are unknown, the mean so far is backed up.
        """
        leaf = self._expand(rollout.from_node or self.root, completion)
        value = reward if failure_reason(results) is None else self.root.value
        self.rule.update(leaf, value)
        if rollout.from_node is not None:
            end_simulation(rollout.from_node)
        self.right += reward == 1.0
        workflow = self.workflows.setdefault(code, FoundWorkflow(code, results, reward, leaf, rollout.from_node))
        (workflow.samples if rollout.from_node is None else workflow.rollouts).append(completion)

    def _expand(self, node: Node, completion: Completion) -> Node:
        """Add nodes for the completion's statements below `node`; returns the leaf."""
        begin = len(self._prefix[node].tokens)
        for end in self._statement_ends(completion.tokens, begin):
            tokens, logprobs = completion.tokens[begin:end], completion.logprobs[begin:end]
            child = self._child.get((node, tuple(tokens)))
            if child is None:
                # A completion that was cut ends here, too: nothing can be written below it.
                terminal = end == len(completion.tokens)
                unexpanded = 0.0 if terminal or end >= self._longest else 1.0
                child = node.add(self._text_of(tokens), exp(sum(logprobs)), unexpanded, terminal)
                self._child[node, tuple(tokens)] = child
                self._prefix[child] = completion.until(end)
                self.rule.expand(child)
            node, begin = child, end
        return node

    def _statement_ends(self, tokens: list[int], begin: int) -> list[int]:
        inner = [i + 1 for i in range(begin, len(tokens) - 1) if self._ends_statement(tokens[i])]
        return [*inner, len(tokens)]

    def _next_row(self) -> int:
        self.completions += 1
        return self.completions - 1
