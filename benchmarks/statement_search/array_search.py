"""Search over statements, one simulation for a batch of problems at a time: select, expand, evaluate, backpropagate.

One evaluation is one complete program with a new behaviour. A program that behaves like an earlier one is free, so the
number of iterations is limited as well. A problem's result depends on the problem, the rule and the seed, not on its
batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks.statement_search.array_tree import NONE, SPENT, STOP, Ids, TreeBatch
from benchmarks.statement_search.behaviour_set import BehaviourSet, fingerprints
from benchmarks.statement_search.random_bits import uniform
from benchmarks.statement_search.start_rules import make_start_rule
from tasks.coldstart.expression_space import STATEMENTS, SYMBOLS, Program, Space
from tasks.coldstart.expression_states import States, apply_symbol, leaves_of, legal_statements, width_of
from tasks.coldstart.statement_prior import Prior
from tasks.evaluators.number import TOLERANCE
from tasks.search.rules import Rule, draw_index, puct, uct
from tasks.seeds import derive_seed

ITERATIONS = 20
"""Most simulations of a problem for each evaluation of its budget."""

BATCH = 512
"""Problems per batch; a quarter of it without a prior, where trees are wider."""

MOST_EDGES = 512
"""Most edges of a node without a prior; beyond it (over 15 leaves) this many legal statements are drawn."""


@dataclass(frozen=True)
class SearchPlan:
    """Settings of a search. `exploration`: c of puct and uct; `edges`: most edges of a node with puct."""

    rule: Rule
    budget: int  # evaluations for each problem
    seed: int
    stop_at: int = 1  # end a problem's search at so many hits
    exploration: float = 1.5
    shaping: float = 0.5  # largest reward of a wrong program
    edges: int = 64
    lengths: tuple[float, ...] = (1, 1, 1, 1, 1, 1)  # rule `random`: how often programs of 1, 2 … statements are drawn


@dataclass
class SearchResult:
    """Result of a problem's search. `hits`: number of the evaluation and program that gave all answers."""

    evaluations: int = 0
    iterations: int = 0
    hits: list[tuple[int, Program]] = field(default_factory=list)


def search(spaces: Sequence[Space], plan: SearchPlan, prior: Prior | None = None) -> list[SearchResult]:
    """Search each problem; `puct` requires `prior`. Results in the order of the problems."""
    if (plan.rule == "puct") != (prior is not None):
        raise ValueError(f"rule {plan.rule}: puct takes a prior, the others take none")
    outcomes = [SearchResult() for _ in spaces]
    by_width: dict[tuple[int, int], list[int]] = {}
    for place, space in enumerate(spaces):
        by_width.setdefault((width_of(space), len(space.answers)), []).append(place)
    size = BATCH if prior else BATCH // 4
    for places in by_width.values():
        for begin in range(0, len(places), size):
            batch = places[begin : begin + size]
            found = _search_batch([spaces[place] for place in batch], plan, prior)
            for place, outcome in zip(batch, found, strict=True):
                outcomes[place] = outcome
    return outcomes


def _search_batch(spaces: Sequence[Space], plan: SearchPlan, prior: Prior | None) -> list[SearchResult]:
    seeds = [derive_seed(plan.seed, "statements", plan.rule, space.problem_id) for space in spaces]
    searcher = _Random(spaces, plan, seeds) if plan.rule == "random" else _Tree(spaces, plan, seeds, prior)
    active = np.arange(len(spaces))
    while len(active):
        ended, exhausted = searcher.advance(active)
        going = ~exhausted
        for place in np.flatnonzero(ended):
            outcome = searcher.outcomes[active[place]]
            outcome.iterations += 1
            tired = outcome.evaluations >= plan.budget or outcome.iterations >= ITERATIONS * plan.budget
            going[place] &= not tired and len(outcome.hits) < plan.stop_at
        active = active[going]
    return searcher.outcomes


def reward_of(values: NDArray[np.float64], answers: NDArray[np.float64], shaping: float) -> NDArray[np.float64]:
    """[B] of values [B, R] against answers [B, R]: 1 if all are right, else `shaping` × their nearness.

    Nearness is the mean over the inputs of min(v / a, a / v), 0 for different signs.
    """
    right = np.abs(values - answers) <= TOLERANCE * np.abs(answers)
    with np.errstate(all="ignore"):
        ratio = values / answers
        near = np.where(ratio > 0, np.minimum(ratio, 1 / ratio), 0)
    return np.where(right.all(axis=1), 1.0, shaping * np.nan_to_num(near).mean(axis=1))


class _Tree:
    """Search by the rules that build trees."""

    def __init__(self, spaces: Sequence[Space], plan: SearchPlan, seeds: Sequence[int], prior: Prior | None) -> None:
        self.plan = plan
        self.seeds = np.array(seeds, dtype=np.uint64)
        self.forest = TreeBatch(spaces, self.seeds, prior, plan.edges if prior else MOST_EDGES)
        self.answers = np.stack([space.answers for space in spaces])
        self.outcomes = [SearchResult() for _ in spaces]
        self.guided = prior is not None
        self.starts = make_start_rule(plan.rule, self.forest)
        self._cursor = np.full(len(spaces), NONE, dtype=np.int64)  # node of each simulation; NONE: at its start

    def advance(self, problems: Ids) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Advance the pending simulation of each of `problems` [B] by one step down its tree.

        Returns [B] flags: the simulation ended; the tree is exhausted.
        """
        nodes = self._start(problems)
        slots = self.select(nodes)
        below, leaves = self.expand(nodes, slots)
        self.evaluate(leaves[leaves != NONE])
        self._cursor[problems] = below
        return below == NONE, (nodes == NONE) | ((slots == NONE) & (self.forest.depth[nodes] == 0))

    def _start(self, problems: Ids) -> Ids:
        nodes = self._cursor[problems]
        fresh = nodes == NONE
        nodes[fresh] = self.starts.choose(problems[fresh])
        return nodes

    def expand(self, nodes: Ids, slots: Ids) -> tuple[Ids, Ids]:
        """Follow edge `slots` of `nodes` [B], adding missing nodes.

        Returns the node to continue from and the node of a complete program, NONE if there is none.
        """
        forest = self.forest
        below, leaves = np.full(len(nodes), NONE, dtype=np.int64), np.full(len(nodes), NONE, dtype=np.int64)
        self._close(nodes[(slots == NONE) & (nodes != NONE)])
        at_once = slots == STOP
        leaves[at_once] = nodes[at_once]
        forest.stopped[nodes[at_once]] = True
        at = np.flatnonzero((slots != NONE) & ~at_once)
        nodes, slots = nodes[at], slots[at]
        rows = forest.row[nodes]
        codes, children = forest.edge_code[rows, slots].astype(np.int64), forest.edge_child[rows, slots]
        stop, fresh = codes == STOP, (codes != STOP) & (children == NONE)
        forest.tried[rows] = np.maximum(forest.tried[rows], slots + 1)
        forest.edge_child[rows[stop], slots[stop]] = SPENT
        leaves[at[stop]] = nodes[stop]
        grown = forest.grow(nodes[fresh], codes[fresh])
        forest.edge_child[rows[fresh], slots[fresh]] = np.where(grown == NONE, SPENT, grown)
        forest.slot[grown[grown != NONE]] = slots[fresh][grown != NONE]
        known = ~stop & ~fresh
        below[at[known]] = children[known]
        # without a prior a new node is a program at once
        (below if self.guided else leaves)[at[fresh]] = grown
        return below, leaves

    def _close(self, nodes: Ids) -> None:
        """Mark `nodes` as exhausted: no simulation selects them again."""
        forest = self.forest
        nodes = nodes[forest.depth[nodes] > 0]
        parents = forest.path[nodes, forest.depth[nodes] - 1]
        forest.edge_child[forest.row[parents], forest.slot[nodes]] = SPENT

    def select(self, nodes: Ids) -> Ids:
        """The edge of each node [B] with the highest score; STOP if the program ends without a comparison, NONE if
        the node is exhausted."""
        slots = np.full(len(nodes), NONE, dtype=np.int64)
        forest = self.forest
        there = nodes != NONE
        # where stopping is likelier than all else together it is tried first, before the other edges are looked at
        stop = there & (forest.row[nodes] == NONE) & ~forest.stopped[nodes] & (forest.stop_prior[nodes] >= 0.5)
        slots[stop] = STOP
        there &= ~stop
        if there.any():
            forest.open(nodes[there])
            slots[there] = self._best_edges(nodes[there])
        return slots

    def _best_edges(self, nodes: Ids) -> Ids:
        forest, plan = self.forest, self.plan
        rows = forest.row[nodes]
        tried = forest.tried[rows]
        columns = np.arange(min(int(tried.max()) + 1, forest.edges))
        end = len(columns)
        there, codes = forest.edge_child[:, :end][rows] >= 0, forest.edge_code[:, :end][rows]
        new = (columns == tried[:, None]) & (codes != NONE)
        if plan.rule in ("aflow", "enumerate"):
            return np.where(new.any(axis=1), tried, NONE)
        visits = forest.edge_visits[:, :end][rows].astype(np.float64)
        parent_visits = forest.visits[nodes].astype(np.float64)
        mean = forest.total[nodes] / np.maximum(parent_visits, 1)
        total = forest.edge_total[:, :end][rows]
        value = np.where(visits > 0, total / np.maximum(visits, 1), mean[:, None])
        if plan.rule == "puct":
            prior = forest.edge_prior[:, :end][rows].astype(np.float64)
            scores = puct(value, prior, np.maximum(parent_visits, 1)[:, None], visits, plan.exploration)
        else:
            scores = uct(value, parent_visits[:, None], visits, plan.exploration)
        scores = np.where(there | new, scores, -np.inf)
        best = scores.argmax(axis=1)
        return np.where(np.isfinite(scores[np.arange(len(nodes)), best]) | new.any(axis=1), best, NONE)

    def evaluate(self, nodes: Ids) -> None:
        """Evaluate the programs that end at `nodes`; those that behave like an earlier one are free."""
        forest = self.forest
        problems = forest.problem[nodes].astype(np.int64)
        new = forest.programs_seen.add(problems, forest.print[nodes])
        values = forest.value[nodes][:, : forest.leaves.real]
        rewards = reward_of(values, self.answers[problems], self.plan.shaping)
        right = rewards == 1
        for problem, node, is_new, is_right in zip(problems, nodes, new.tolist(), right.tolist(), strict=True):
            if is_new:
                outcome = self.outcomes[problem]
                outcome.evaluations += 1
                if is_right:
                    outcome.hits.append((outcome.evaluations, forest.program(int(node))))
        self.backpropagate(nodes, rewards)
        self.starts.remember(nodes, rewards)

    def backpropagate(self, nodes: Ids, rewards: NDArray[np.float64]) -> None:
        """Add each reward [B] to its node, to all nodes above it and to the edges between them."""
        forest = self.forest
        path = forest.path[nodes]
        at, depth = np.nonzero(path >= 0)
        above = path[at, depth]
        forest.visits[above] += 1  # a node stands above one of `nodes` at most
        forest.total[above] += rewards[at]
        below = depth > 0
        rows, slots = forest.row[path[at[below], depth[below] - 1]], forest.slot[above[below]]
        forest.edge_visits[rows, slots] += 1
        forest.edge_total[rows, slots] += rewards[at[below]]


class _Random:
    """Rule `random`: a length is drawn, then each statement uniformly from the legal ones. No tree."""

    def __init__(self, spaces: Sequence[Space], plan: SearchPlan, seeds: Sequence[int]) -> None:
        self.plan = plan
        self.leaves, self.width = leaves_of(spaces, width_of(spaces[0])), width_of(spaces[0])
        self.seeds = np.array(seeds, dtype=np.uint64)
        self.answers = np.stack([space.answers for space in spaces])
        self.outcomes = [SearchResult() for _ in spaces]
        self.seen = BehaviourSet(len(spaces))
        self._begin = np.zeros((len(spaces), len(SYMBOLS), self.width, self.width), dtype=bool)
        self._begin[:] = legal_statements(self._empty(np.arange(len(spaces))))

    def _empty(self, problems: Ids) -> States:
        size = len(problems)
        values = np.full((size, self.leaves.inputs, self.width), np.nan)
        values[:, :, STATEMENTS:] = self.leaves.values[problems]
        none, nothing = np.zeros((size, self.width), dtype=bool), np.zeros((size, STATEMENTS), dtype=np.int64)
        depth = np.zeros(size, dtype=np.int64)
        return States(values, self.leaves.real, depth, none, nothing, self.leaves, problems)

    def advance(self, problems: Ids) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """One program for each of `problems` [B]. Returns [B] True, and flags for problems without legal programs."""
        counters = np.array([self.outcomes[p].iterations for p in problems.tolist()])
        draw = uniform(self.seeds[problems], counters, np.zeros_like(problems))
        lengths = 1 + draw_index(np.tile(np.array(self.plan.lengths, dtype=np.float64), (len(problems), 1)), draw)
        states = self._empty(problems)
        codes = np.full((len(problems), STATEMENTS), NONE, dtype=np.int64)
        last = np.full((len(problems), self.leaves.inputs), np.nan)
        going = np.arange(len(problems))
        for step in range(STATEMENTS):
            part = _rows(states, going)
            allowed = self._begin[problems[going]] if step == 0 else legal_statements(part)
            flat = allowed.reshape(len(going), -1)
            u = uniform(self.seeds[problems[going]], counters[going], np.full_like(going, step + 1))
            chosen = draw_index(flat.astype(np.float64), u)
            possible = flat[np.arange(len(going)), chosen]
            going, chosen = going[possible], chosen[possible]
            self._add(states, going, step, chosen, last, codes)
            going = going[lengths[going] > step + 1]
            if not len(going):
                break
        self._evaluate(problems, last, codes)
        drawable = np.asarray(self._begin[problems].any(axis=(1, 2, 3)))
        return np.ones(len(problems), dtype=bool), ~drawable

    def _add(self, states: States, rows: Ids, step: int, chosen: Ids, last: NDArray[np.float64], codes: Ids) -> None:
        symbol, rest = np.divmod(chosen, self.width**2)
        left, right = np.divmod(rest, self.width)
        for s in range(len(SYMBOLS)):
            at = rows[symbol == s]
            a, b = states.values[at, :, left[symbol == s]], states.values[at, :, right[symbol == s]]
            states.values[at, :, step] = apply_symbol(s, a, b)
        states.used[rows, left] = True
        states.used[rows, right] = True
        states.depth[rows] += 1
        last[rows] = states.values[rows, :, step]
        codes[rows, step] = symbol << 10 | left << 5 | right

    def _evaluate(self, problems: Ids, last: NDArray[np.float64], codes: Ids) -> None:
        whole = codes[:, 0] != NONE
        problems, last, codes = problems[whole], last[whole], codes[whole]
        new = self.seen.add(problems, fingerprints(last))
        right = reward_of(last[:, : self.leaves.real], self.answers[problems], 0.0) == 1
        for place in np.flatnonzero(new):
            outcome = self.outcomes[problems[place]]
            outcome.evaluations += 1
            if right[place]:
                program = tuple((SYMBOLS[c >> 10], c >> 5 & 31, c & 31) for c in codes[place].tolist() if c != NONE)
                outcome.hits.append((outcome.evaluations, program))


def _rows(states: States, rows: Ids) -> States:
    return States(
        states.values[rows],
        states.real,
        states.depth[rows],
        states.used[rows],
        states.reach[rows],
        states.leaves,
        states.problem[rows],
    )
