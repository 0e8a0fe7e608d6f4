"""Search trees of a batch of problems as arrays, as in mctx: all nodes are rows of one pool.

A node is a partial program. Its *edges*, the likeliest first, are next statements or the end of the program; they are
expanded in this order, so the first `tried` edges of a node are the expanded ones.
Shapes: N nodes, E opened nodes, K edges of each, I inputs.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.statement_search.behaviour_set import BehaviourSet, fingerprints
from benchmarks.statement_search.prior_scores import describe_spaces, log_priors, stop_chance
from benchmarks.statement_search.random_bits import mix_bits, uniform
from tasks.coldstart.expression_space import STATEMENTS, SYMBOLS, Program, Space
from tasks.coldstart.expression_states import (
    States,
    apply_symbol,
    bits_of,
    leaves_of,
    legal_statements,
    stop_kinds,
    width_of,
)
from tasks.coldstart.statement_prior import Prior, describe_value

Ids = NDArray[np.int64]

NONE, SPENT = -1, -2  # no child yet; nothing more to find there
GRAIN = 8192  # resolution of log-priors
PLACE_BITS = 13
IMPROBABLE = (1 << 31 - PLACE_BITS) - 1  # of e^-32; what is illegal lies beyond
STOP = len(SYMBOLS) << 10  # code of the end of the program; a statement is symbol << 10 | left << 5 | right


class TreeBatch:
    """One tree for each of P problems of the same width."""

    def __init__(self, spaces: Sequence[Space], seeds: NDArray[np.uint64], prior: Prior | None, edges: int) -> None:
        """`edges`: most edges of a node. Without a prior they have equal weight and a random order."""
        self.spaces, self.seeds, self.prior, self.edges = spaces, seeds, prior, edges
        self.width = width_of(spaces[0])
        self.leaves = leaves_of(spaces, self.width)
        inputs, size = self.leaves.inputs, max(64, 4 * len(spaces))
        self.count = self.opened = 0
        self.problem = np.zeros(size, dtype=np.int32)
        self.depth = np.zeros(size, dtype=np.int8)
        self.visits = np.zeros(size, dtype=np.int32)
        self.total = np.zeros(size)
        self.slot = np.full(size, NONE, dtype=np.int16)  # edge of its parent that leads to it
        self.code = np.zeros(size, dtype=np.int16)
        self.value = np.zeros((size, inputs))
        self.used = np.zeros(size, dtype=np.int64)
        self.reach = np.zeros(size, dtype=np.int64)
        self.path = np.full((size, STATEMENTS + 1), NONE, dtype=np.int32)
        self.print = np.zeros(size, dtype=np.uint64)
        self.state = np.zeros(size, dtype=np.uint64)
        self.row = np.full(size, NONE, dtype=np.int32)
        self.stop_prior = np.zeros(size, dtype=np.float32)
        self.stopped = np.zeros(size, dtype=bool)
        self.description = np.zeros((size, 0), dtype=np.float32)
        if prior:
            leaf, self.question = describe_spaces(prior, spaces, self.width - STATEMENTS)
            self.leaf_description = leaf
            self.description = np.zeros((size, leaf.shape[2]), dtype=np.float32)
        self.edge_prior = np.zeros((size, edges), dtype=np.float32)
        self.edge_code = np.full((size, edges), NONE, dtype=np.int16)
        self.edge_child = np.full((size, edges), NONE, dtype=np.int32)
        self.edge_visits = np.zeros((size, edges), dtype=np.int32)
        self.edge_total = np.zeros((size, edges))
        self.tried = np.zeros(size, dtype=np.int32)
        self.states_seen, self.programs_seen = BehaviourSet(len(spaces)), BehaviourSet(len(spaces))
        self.quantities = bits_of(self.leaves.quantity) << STATEMENTS
        self.roots = self._allocate(len(spaces))
        self.problem[self.roots] = np.arange(len(spaces))
        self.path[self.roots, 0] = self.roots
        flat = self.leaves.values.transpose(0, 2, 1)
        self.leaf_prints = fingerprints(flat.reshape(-1, inputs)).reshape(flat.shape[:2])

    def states(self, nodes: Ids) -> States:
        """The partial programs of nodes."""
        problem, path = self.problem[nodes].astype(np.int64), self.path[nodes, 1:]
        there = path >= 0
        own = np.where(there[:, :, None], self.value[path], np.nan)
        values = np.concatenate([own.transpose(0, 2, 1), self.leaves.values[problem]], axis=2)
        used = ((self.used[nodes][:, None] >> np.arange(self.width)) & 1).astype(bool)
        reach = np.where(there, self.reach[path], 0)
        depth = self.depth[nodes].astype(np.int64)
        return States(values, self.leaves.real, depth, used, reach, self.leaves, problem)

    def open(self, nodes: Ids) -> None:
        """Create the edges of nodes."""
        nodes = nodes[self.row[nodes] == NONE]
        if not len(nodes):
            return
        states = self.states(nodes)
        self._keep(nodes, self._learnt_priors(states, nodes) if self.prior else self._flat_priors(states, nodes))

    def _learnt_priors(self, states: States, nodes: Ids) -> NDArray[np.float32]:
        """[B, S M M + 1]: log-probabilities of the statements and, at the end, of stopping, if that is open."""
        assert self.prior
        statements = log_priors(self.prior, states, self._operands(nodes), self.question[states.problem])
        stop = self.stop_prior[nodes, None]
        with np.errstate(divide="ignore"):
            last = np.where(self.stopped[nodes, None], np.float32(-1e9), np.log(stop))
            return np.concatenate([statements + np.log1p(-stop), last], axis=1)

    def _flat_priors(self, states: States, nodes: Ids) -> NDArray[np.float32]:
        """Priors that encode a random order, for rules without a prior."""
        allowed = legal_statements(states).reshape(len(nodes), -1)
        codes = statement_codes(self.width)[None, :-1]
        places = uniform(self.seeds[states.problem][:, None] ^ self.state[nodes][:, None], codes)
        logs = np.where(allowed, -16 * places, -1e9)
        return np.concatenate([logs, np.full((len(nodes), 1), -1e9)], axis=1).astype(np.float32)

    def _operands(self, nodes: Ids) -> NDArray[np.float32]:
        path = self.path[nodes, 1:]
        own = np.where((path >= 0)[:, :, None], self.description[path], np.float32(0))
        return np.concatenate([own, self.leaf_description[self.problem[nodes]]], axis=1)

    def _keep(self, nodes: Ids, logs: NDArray[np.float32]) -> None:
        """The likeliest edges in order, sorted as integers whose low bits hold the index, which breaks ties."""
        kept = min(self.edges, logs.shape[1])
        keys = np.minimum(logs * -GRAIN, IMPROBABLE).astype(np.int32) << PLACE_BITS
        keys |= np.arange(logs.shape[1], dtype=np.int32)
        if kept < logs.shape[1]:
            keys = np.partition(keys, kept - 1, axis=1)[:, :kept]
        keys.sort(axis=1)
        levels, places = keys >> PLACE_BITS, keys & (1 << PLACE_BITS) - 1
        rows = self._allocate_rows(len(nodes))
        self.edge_prior[rows, :kept] = np.exp(levels * np.float32(-1 / GRAIN))
        self.edge_code[rows, :kept] = np.where(levels < IMPROBABLE, statement_codes(self.width)[places], NONE)
        self.row[nodes] = rows

    def grow(self, parents: Ids, codes: Ids) -> Ids:
        """A child for each of `parents` [B], at most one per problem; NONE if its state is known."""
        problem = self.problem[parents].astype(np.int64)
        left, right = self._value_of(parents, codes >> 5 & 31), self._value_of(parents, codes & 31)
        value = np.empty_like(left)
        for symbol in range(len(SYMBOLS)):
            rows = codes >> 10 == symbol
            value[rows] = apply_symbol(symbol, left[rows], right[rows])
        prints = fingerprints(value)
        path = self.path[parents]
        known = (self.leaf_prints[problem] == prints[:, None]).any(axis=1)
        known |= ((self.print[path[:, 1:]] == prints[:, None]) & (path[:, 1:] >= 0)).any(axis=1)
        state = self.state[parents] + mix_bits(prints)  # a sum: the order of statements does not matter
        new = np.flatnonzero(~known)
        new = new[self.states_seen.add(problem[new], np.maximum(state[new], np.uint64(1)))]
        children = np.full(len(parents), NONE, dtype=np.int64)
        ids = children[new] = self._allocate(len(new))
        parent, code = parents[new], codes[new]
        depth = self.depth[parent] + 1
        self.problem[ids], self.depth[ids], self.code[ids] = problem[new], depth, code
        self.value[ids], self.print[ids], self.state[ids] = value[new], prints[new], state[new]
        self.path[ids] = self.path[parent]
        self.path[ids, depth] = ids
        operands = code >> 5 & 31, code & 31
        self.used[ids] = self.used[parent] | (1 << operands[0]) | (1 << operands[1])
        self.reach[ids] = self._reach_of(parent, operands[0]) | self._reach_of(parent, operands[1])
        if self.prior:
            described = (self._description_of(parent, operand) for operand in operands)
            self.description[ids] = describe_value(self.prior.weights, code >> 10, *described)
            kinds = stop_kinds(depth.astype(np.int64), self.used[ids], self.quantities[problem[new]])
            chance = stop_chance(self.prior, self.description[ids], self.question[problem[new]], kinds)
            self.stop_prior[ids] = np.where(depth == STATEMENTS, 1, chance)
        return children

    def _value_of(self, nodes: Ids, operands: Ids) -> NDArray[np.float64]:
        leaf = self.leaves.values[self.problem[nodes], :, np.maximum(operands - STATEMENTS, 0)]
        own = self.value[self.path[nodes, np.minimum(operands, STATEMENTS - 1) + 1]]
        return np.where((operands >= STATEMENTS)[:, None], leaf, own)

    def _description_of(self, nodes: Ids, operands: Ids) -> NDArray[np.float32]:
        leaf = self.leaf_description[self.problem[nodes], np.maximum(operands - STATEMENTS, 0)]
        own = self.description[self.path[nodes, np.minimum(operands, STATEMENTS - 1) + 1]]
        return np.where((operands >= STATEMENTS)[:, None], leaf, own)

    def _reach_of(self, nodes: Ids, operands: Ids) -> Ids:
        leaf = np.maximum(operands - STATEMENTS, 0)
        bit = np.where(self.leaves.quantity[self.problem[nodes], leaf], 1 << leaf, 0)
        own = self.reach[self.path[nodes, np.minimum(operands, STATEMENTS - 1) + 1]]
        return np.where(operands >= STATEMENTS, bit, own)

    def exhausted(self, node: int) -> bool:
        """True if all edges of `node` are expanded."""
        row = self.row[node]
        if row == NONE:
            return False
        tried = self.tried[row]
        return bool(tried >= self.edges or self.edge_code[row, tried] == NONE)

    def program(self, node: int) -> Program:
        """The statements from the root to `node`."""
        codes = [int(self.code[step]) for step in self.path[node, 1 : self.depth[node] + 1]]
        return tuple((SYMBOLS[code >> 10], code >> 5 & 31, code & 31) for code in codes)

    def _allocate(self, count: int) -> Ids:
        ids = np.arange(self.count, self.count + count)
        self.count += count
        while self.count > len(self.problem):
            self._double(_ZEROS, 0)
            self._double(("path", "row", "slot"), NONE)
        return ids

    def _allocate_rows(self, count: int) -> Ids:
        rows = np.arange(self.opened, self.opened + count)
        self.opened += count
        while self.opened > len(self.tried):
            self._double(("edge_prior", "edge_visits", "edge_total", "tried"), 0)
            self._double(("edge_code", "edge_child"), NONE)
        return rows

    def _double(self, names: Sequence[str], empty: int) -> None:
        for name in names:
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.full_like(old, empty)]))


_ZEROS = (
    *("problem", "depth", "visits", "total", "code", "value", "used", "reach"),
    *("print", "state", "stop_prior", "stopped", "description"),
)


@cache
def statement_codes(width: int) -> Ids:
    """[S M M + 1]: the code of each statement over `width` operands, then STOP."""
    symbol, left, right = np.indices((len(SYMBOLS), width, width)).reshape(3, -1)
    return np.append(symbol << 10 | left << 5 | right, STOP)
