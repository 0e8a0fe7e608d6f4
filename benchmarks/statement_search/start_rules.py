"""Where each simulation of a tree search begins, rule by rule: a rule's own bookkeeping stands with it."""

import heapq
from collections import deque
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.statement_search.array_tree import NONE, Forest, Ids
from tasks.coldstart.expression_space import STATEMENTS
from tasks.search.rules import AFLOW_BEST, Rule, draw_index, soft_mix, uniform

Rewards = NDArray[np.float64]


class Starts(Protocol):
    """Chooses where simulations begin, and hears what they gave."""

    def choose(self, problems: Ids) -> Ids:
        """A node for each of `problems` [B]; NONE where nothing is left to try."""

    def remember(self, nodes: Ids, rewards: Rewards) -> None:
        """The programs that end at `nodes` [B], no two of one problem, earned `rewards` [B]."""


def starts_of(rule: Rule, forest: Forest) -> Starts:
    """What goes with a rule that grows trees."""
    made: dict[Rule, Callable[[Forest], Starts]] = {"enumerate": Oldest, "aflow": SoftMixed}
    return made.get(rule, Root)(forest)


class Root:
    """Every simulation descends from the root."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest

    def choose(self, problems: Ids) -> Ids:
        return self.forest.roots[problems]

    def remember(self, nodes: Ids, rewards: Rewards) -> None:
        """Visits and totals of the tree say it all."""


class Oldest:
    """Breadth first: the oldest node that has something left to try."""

    def __init__(self, forest: Forest) -> None:
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


class SoftMixed:
    """AFlow's rule: the root or one of the best nodes with something left to try, by soft-mixed probability."""

    def __init__(self, forest: Forest) -> None:
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
