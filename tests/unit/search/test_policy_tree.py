"""The guided tree, fed with completions by hand: token 9 ends a statement, token 1 the text."""

import random
from collections.abc import Sequence
from itertools import pairwise, zip_longest
from math import exp, log

import pytest

from tasks.records.programs import Result
from tasks.records.search import Completion
from tasks.search.policy_tree import PolicyTree, Rollout
from tasks.search.rules import NEGLIGIBLE
from tests.support.searches import make_problem, make_tree, nodes_of

OK = [Result(status="ok", value=1)]
LONGEST = 6


def tree_of() -> PolicyTree:
    return make_tree(make_problem("p", ("?", 1)), LONGEST)


def taught(*written: Completion, rewards: Sequence[float] = ()) -> PolicyTree:
    """A tree with these independent samples."""
    tree = tree_of()
    for rollout, each, reward in zip_longest(tree.samples(len(written)), written, rewards, fillvalue=0.0):
        learn(tree, rollout, each, reward)
    return tree


def completion(tokens: list[int], *probabilities: float) -> Completion:
    """With all the tokens' probabilities, or with 1 for those not given."""
    filled = [*probabilities, *([1.0] * (len(tokens) - len(probabilities)))]
    return Completion(tokens=tokens, logprobs=[log(p) for p in filled])


def learn(tree: PolicyTree, rollout: Rollout, written: Completion, reward: float = 0.0) -> None:
    tree.update(rollout, written, str(written.tokens), OK, reward)


def test_statements_become_nodes_with_the_policys_probabilities() -> None:
    tree = taught(completion([5, 9, 6, 9, 1], 0.5, 0.5, 0.8, 1.0, 0.9), rewards=[0.5])
    first, second, end = (chain := nodes_of(tree.root))[1:]
    assert [n.statement for n in chain] == ["", "5-9", "6-9", "1"]
    assert [n.prior for n in chain] == pytest.approx([1, 0.25, 0.8, 0.9])
    assert [n.unexpanded for n in chain] == pytest.approx([0.75, 0.2, 0.1, 0])
    assert [n.terminal for n in chain] == [False, False, False, True]
    assert [(n.visits, n.value) for n in chain] == [(1, 0.5)] * 4
    assert tree.prefix(second).tokens == [5, 9, 6, 9]
    assert tree.prefix(second).logprobs == pytest.approx([log(0.5), log(0.5), log(0.8), 0])
    assert tree.prefix(None).tokens == []
    assert (end.depth, first.closed) == (3, False)


def test_completions_share_their_common_statements() -> None:
    one, two = completion([5, 9, 6, 9, 1], 0.5, 1.0, 0.5), completion([5, 9, 7, 1], 0.5, 1.0, 0.25)
    tree = taught(one, two, one, rewards=[0.0, 1.0, 0.0])
    (shared,) = tree.root.children
    assert [child.statement for child in shared.children] == ["6-9", "7-1"]
    assert (shared.visits, shared.unexpanded) == (3, pytest.approx(0.25))
    assert tree.root.value == pytest.approx(1 / 3)
    counts = {code: len(found.samples) for code, found in tree.workflows.items()}
    assert counts == {"[5, 9, 6, 9, 1]": 2, "[5, 9, 7, 1]": 1}


def test_a_last_token_that_ends_a_statement_is_no_statement_of_its_own() -> None:
    (leaf,) = taught(completion([5, 5, 5, 5, 5, 9], 0.5)).root.children  # cut at LONGEST
    assert (leaf.terminal, leaf.unexpanded) == (True, 0.0)


def test_a_negligible_rest_is_not_worth_a_rollout() -> None:
    tree = taught(completion([5, 9, 1], 1 - NEGLIGIBLE / 2, 1.0, 0.5))
    assert tree.root.unexpanded == 0.0
    (rollout,) = tree.propose(1)
    assert [rollout.from_node] == tree.root.children


def test_a_rollout_ends_below_the_node_that_it_began_at() -> None:
    tree = taught(completion([5, 9, 6, 9, 1], 1.0, 1.0, 0.5), rewards=[0.5])
    (rollout,) = tree.propose(1)
    first = tree.root.children[0]
    assert rollout.from_node is first
    assert (rollout.row, tree.completions) == (1, 2)
    assert (first.pending, tree.root.pending) == (1, 1)
    written = completion([5, 9, 7, 1], 1.0, 1.0, 0.25)
    learn(tree, rollout, written, reward=1.0)
    assert [(c.statement, c.visits) for c in first.children] == [("6-9", 1), ("7-1", 1)]
    assert all(node.pending == 0 for node in nodes_of(tree.root))
    found = tree.workflows[str(written.tokens)]
    assert (found.samples, found.rollouts, found.from_node) == ([], [written], first)


def test_a_wave_is_spread_and_each_completion_has_a_row_of_its_own() -> None:
    tree = taught(completion([5, 9, 1], 0.4, 1.0, 0.5), completion([6, 9, 1], 0.4, 1.0, 0.5))
    rollouts = tree.propose(3)
    assert [r.row for r in tree_of().samples(2) + rollouts] == list(range(5))
    assert len({id(r.from_node) for r in rollouts}) == 3


def test_nothing_is_proposed_without_room_or_where_all_is_right_or_written_out() -> None:
    tree = taught(completion([5, 9, 1], 0.5))
    assert [tree.propose(wave) for wave in (0, -3)] == [[], []]
    tree = tree_of()
    one, two = tree.samples(2)
    learn(tree, one, completion([5, 9, 1], 0.3), reward=1.0)
    assert tree.propose(4) == []
    learn(tree, two, completion([6, 9, 1], 0.3), reward=2 / 3)
    assert len(tree.propose(4)) == 4
    tree = taught(completion([5, 9, 1]))  # the policy is sure of every token, and wrong
    assert tree.propose(4) == []
    assert tree.root.closed


def test_priors_and_what_is_unseen_add_up_however_the_completions_fall() -> None:
    """A policy of three statements in any order, each reported with the probability of sampling it."""
    rng, tree = random.Random(0), tree_of()
    chances = {5: 0.5, 6: 0.3, 7: 0.2}

    def write(prefix: Completion) -> Completion:
        tokens, probabilities = list(prefix.tokens), [exp(x) for x in prefix.logprobs]
        while len(tokens) < LONGEST and 1 not in tokens:
            token = rng.choices(list(chances), list(chances.values()))[0] if rng.random() < 0.8 else 1
            chance = chances.get(token, 1.0) * (0.2 if token == 1 else 0.8)
            tokens += [token] if token == 1 or len(tokens) == LONGEST - 1 else [token, 9]
            probabilities += [chance, 1.0][: len(tokens) - len(probabilities)]
        return completion(tokens, *probabilities)

    for rollout in tree.samples(5):
        learn(tree, rollout, write(tree.prefix(None)))
    while rollouts := tree.propose(4):
        for rollout in rollouts:
            learn(tree, rollout, write(tree.prefix(rollout.from_node)))
    expanded = [node for node in nodes_of(tree.root) if node.children]
    assert len(expanded) > 10
    for node in expanded:
        assert node.unexpanded + sum(child.prior for child in node.children) == pytest.approx(1, abs=NEGLIGIBLE)
        assert node.unexpanded == 0  # nothing was left when it gave up
    for above, below in pairwise(nodes_of(tree.root)):
        if below.parent is above:
            assert tree.prefix(below).tokens[: len(tree.prefix(above).tokens)] == tree.prefix(above).tokens
