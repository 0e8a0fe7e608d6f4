"""Start node of each simulation by rule, with the state that the rule needs."""

import heapq
from collections import deque
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.statement_search.array_tree import NONE, Ids, TreeBatch
from benchmarks.statement_search.random_bits import uniform
from tasks.coldstart.expression_space import STATEMENTS
from tasks.search.rules import AFLOW_BEST, Rule, draw_index, soft_mix

Rewards = NDArray[np.float64]


class StartRule(Protocol):
    """Chooses the start nodes of simulations, and receives their rewards."""

    def choose(self, problems: Ids) -> Ids:
        """A node for each of `problems` [B]; NONE if its tree is exhausted."""

    def remember(self, nodes: Ids, rewards: Rewards) -> None:
        """Record the `rewards` [B] of the programs that end at `nodes` [B], at most one per problem."""


def make_start_rule(rule: Rule, forest: TreeBatch) -> StartRule:
    """The start rule of a tree rule."""
    made: dict[Rule, Callable[[TreeBatch], StartRule]] = {"enumerate": FromOldest, "aflow": FromSoftMix}
    return made.get(rule, FromRoot)(forest)


class FromRoot:
    """Every simulation descends from the root."""

    def __init__(self, forest: TreeBatch) -> None:
        self.forest = forest

    def choose(self, problems: Ids) -> Ids:
        return self.forest.roots[problems]

    def remember(self, nodes: Ids, rewards: Rewards) -> None:
        """Visits and totals of the tree suffice."""


class FromOldest:
    """Breadth first: the oldest open node."""

    def __init__(self, forest: TreeBatch) -> None:
        self.forest = forest
        self._queues = [deque([root]) for root in forest.roots.tolist()]

    def choose(self, problems: Ids) -> Ids:
        return np.array([self._first(self._queues[problem]) for problem in problems.tolist()], dtype=np.int64)

    def _first(self, queue: deque[int]) -> int:
        while queue and self.forest.exhausted(queue[0]):
            queue.popleft()
        return queue[0] if queue else NONE

    def remember(self, nodes: Ids, rewards: Rewards) -> None:  # noqa: ARG002
        nodes = nodes[self.forest.depth[nodes] < STATEMENTS]
        for problem, node in zip(self.forest.problem[nodes].tolist(), nodes.tolist(), strict=True):
            self._queues[problem].append(node)


class FromSoftMix:
    """AFlow's rule: the root or one of the best open nodes, by soft-mixed probability."""

    def __init__(self, forest: TreeBatch) -> None:
        self.forest = forest
        self._best: list[list[tuple[float, int]]] = [[] for _ in forest.roots]  # (-reward, node), the best first
        self._rest: list[list[tuple[float, int]]] = [[] for _ in forest.roots]  # a heap of the others
        self._chosen = np.zeros(len(forest.roots), dtype=np.int64)  # simulations so far: names their random numbers

    def choose(self, problems: Ids) -> Ids:
        candidates = np.full((len(problems), AFLOW_BEST + 1), NONE, dtype=np.int64)
        scores = np.zeros(candidates.shape)
        for place, problem in enumerate(problems.tolist()):
            for column, (cost, node) in enumerate(self._open(problem)):
                candidates[place, column], scores[place, column] = node, -cost
        chosen = draw_index(
            soft_mix(scores, candidates != NONE), uniform(self.forest.seeds[problems], self._chosen[problems])
        )
        self._chosen[problems] += 1
        return candidates[np.arange(len(problems)), chosen]

    def _open(self, problem: int) -> list[tuple[float, int]]:
        root, rest = int(self.forest.roots[problem]), self._rest[problem]
        best = self._best[problem] = [entry for entry in self._best[problem] if not self.forest.exhausted(entry[1])]
        while rest and len(best) < AFLOW_BEST:
            best.append(heapq.heappop(rest))
        return best if self.forest.exhausted(root) else [(0.0, root), *best]

    def remember(self, nodes: Ids, rewards: Rewards) -> None:
        deeper = self.forest.depth[nodes] < STATEMENTS
        nodes, costs = nodes[deeper], -rewards[deeper]
        for problem, entry in zip(
            self.forest.problem[nodes].tolist(), zip(costs.tolist(), nodes.tolist(), strict=True), strict=True
        ):
            best = self._best[problem]
            best.append(entry)
            best.sort()
            if len(best) > AFLOW_BEST:
                heapq.heappush(self._rest[problem], best.pop())
