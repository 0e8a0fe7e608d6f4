"""The tree and the choice in it: PUCT and UCT as in the papers, virtual loss, backpropagation, closing."""

from math import log, sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.search.node import Node, backpropagate, begin_simulation, end_simulation, node_id, open_nodes
from tests.support.searches import make_rule, nodes_of


def root_of(*priors: float, unexpanded: float = 0.0, terminal: bool = False) -> Node:
    """A root that was visited, with children that still have all below them unexpanded."""
    root = Node("", None, 1.0, unexpanded)
    for i, prior in enumerate(priors):
        root.add(f"s{i}", prior, unexpanded=0.0 if terminal else 1.0, terminal=terminal)
    return root


def select_node(root: Node, exploration: float, rule: str = "puct", seed: int = 0) -> Node | None:
    return make_rule(rule, exploration).choose(root, Random(seed))


def reward(node: Node, *rewards: float) -> None:
    for each in rewards:
        backpropagate(node, each)


def test_selection_by_hand() -> None:
    root = root_of(0.6, 0.3)
    first, second = root.children
    reward(first, 0.2, 0.4, 0.0)  # Q = 0.2, n = 3
    reward(second, 0.5)  # Q = 0.5, n = 1
    scores = {c: [0.2 + c * 0.6 * sqrt(4) / 4, 0.5 + c * 0.3 * sqrt(4) / 2] for c in (0.1, 1.0, 100.0)}
    assert scores[1.0] == [pytest.approx(0.5), pytest.approx(0.8)]
    for exploration, (left, right) in scores.items():
        assert select_node(root, exploration) is (first if left > right else second)
    root.children[0].prior, root.children[1].prior = 0.9, 0.05
    assert select_node(root, 100.0) is first  # 100 · 0.9 · 2 / 4 against 100 · 0.05 · 2 / 2


def test_a_child_never_visited_has_its_parents_value() -> None:
    root = root_of(0.5, 0.5)
    tried, untried = root.children
    reward(tried, 0.2, 0.6)  # the parent's mean is 0.4, and so is this child's
    assert select_node(root, 0.5) is untried  # the same value, a larger bonus
    reward(tried, 1.0, 1.0, 1.0, 1.0)  # Q = 0.8 for both: 0.8 + c · 0.5 · √6 / 7 against 0.8 + c · 0.5 · √6
    assert select_node(root, 0.0) is tried  # ties go to the first


def test_the_unseen_share_counts_as_a_child_that_was_never_visited() -> None:
    root = root_of(0.5, unexpanded=0.5)
    reward(root.children[0], 0.0)  # 0 + c · 0.5 · 1 / 2 against 0 + c · 0.5 · 1
    assert select_node(root, 1.0) is root
    root.unexpanded = 0.2  # c · 0.25 against c · 0.2
    assert select_node(root, 1.0) is root.children[0]
    assert select_node(root, 0.0) is root  # a tie goes to what is new


def test_uct_is_ucb1_and_widens_up_to_the_root_of_its_visits() -> None:
    root = root_of(0.9, 0.1)  # UCB1 has no prior
    first, second = root.children
    reward(first, 0.2, 0.4, 0.0)
    reward(second, 0.5)
    for c in (0.1, 1.0, 100.0):
        left, right = 0.2 + c * sqrt(log(4) / 3), 0.5 + c * sqrt(log(4) / 1)
        assert select_node(root, c, "uct") is (first if left > right else second)
    reward(second, *[0.9] * 20)  # 24 visits
    root.unexpanded = 0.5
    assert select_node(root, 0.0, "uct") is root  # 2² ≤ 24: an arm without visits comes first
    for _ in range(3):
        reward(root.add("more", 0.1, unexpanded=0.5), 0.0)
    assert len(root.children) ** 2 <= root.visits
    reward(root.add("sixth", 0.1, unexpanded=0.5), 0.0)  # 6² > 28
    assert select_node(root, 0.0, "uct") is second


def test_random_draws_each_open_node_alike() -> None:
    root = root_of(0.9, 0.1, unexpanded=0.5)
    root.children[0].unexpanded = 0.0
    drawn = [select_node(root, 1.5, "random", seed) for seed in range(200)]
    assert {id(node): drawn.count(node) > 70 for node in drawn} == {id(root): True, id(root.children[1]): True}


def test_virtual_loss_spreads_a_wave() -> None:
    root = root_of(0.4, 0.3, 0.3)
    for child in root.children:
        reward(child, 0.5)
    assert len({id(select_node(root, 1.0)) for _ in range(3)}) == 1
    wave = []
    for _ in range(3):
        wave.append(select_node(root, 1.0))
        begin_simulation(wave[-1] or root)
    assert len(set(map(id, wave))) == 3
    assert (root.pending, [c.pending for c in root.children]) == (3, [1, 1, 1])


@given(
    growth=st.lists(st.tuples(st.floats(0.05, 1), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.booleans()), max_size=25),
    wave=st.integers(1, 5),
    exploration=st.sampled_from([0.0, 0.5, 1.5, 10.0]),
    rule=st.sampled_from(["puct", "uct", "random"]),
)
def test_visits_and_rewards_of_a_search_add_up(
    growth: list[tuple[float, float, bool]], wave: int, exploration: float, rule: str
) -> None:
    """Waves of simulations: each starts at a chosen node, adds a child there and backpropagates its reward."""
    root, sum_of_rewards, done = Node("", None, 1.0, unexpanded=1.0), 0.0, 0
    while growth:
        started = []
        for _ in range(min(wave, len(growth))):
            node = select_node(root, exploration, rule, len(growth))
            assert open_nodes(root) == [each for each in nodes_of(root) if each.unexpanded > 0]
            assert (node is None) == (not open_nodes(root))
            if node is not None:
                assert node.unexpanded > 0
                assert not node.terminal
                begin_simulation(node)
                started.append(node)
        assert root.pending == len(started)
        if not started:
            break
        for node in started:
            share, earned, terminal = growth.pop()
            prior = node.unexpanded * share
            child = node.add("x", prior, unexpanded=0.0 if terminal else 1.0, terminal=terminal)
            node.unexpanded -= prior
            backpropagate(child, earned)
            end_simulation(node)
            sum_of_rewards, done = sum_of_rewards + earned, done + 1
        assert all(node.pending == 0 for node in nodes_of(root))
    assert (root.visits, root.total) == (done, sum_of_rewards)
    for node in nodes_of(root):
        below = sum(child.visits for child in node.children)
        assert node.visits == below + (node is not root)
        assert node.depth == node_id(node).count(".")
        assert 0 <= node.value <= 1
