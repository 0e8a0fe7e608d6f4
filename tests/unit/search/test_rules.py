"""The door of the search: rules by name, a user's own, and what is refused."""

import re
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from pydantic import ValidationError

from flows.stages.dvc_yaml import MODULES
from flows.stages.sources import listed_digests
from tasks.errors import GraftError
from tasks.params.sections import RULES, Search
from tasks.records.programs import Result
from tasks.search.node import Node, open_nodes
from tasks.search.rules import BUILT_IN, Rule, rule_of
from tests.support.extensions import examples_project
from tests.support.searches import make_problem, make_tree
from tests.support.stage_params import REPOSITORY, shipped_params
from tests.unit.search.test_policy_tree import LONGEST, OK, completion


def search(**changes: object) -> Search:
    return Search.model_validate(shipped_params().search.model_dump() | changes)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder with the rule of docs/extend.md."""
    return examples_project(tmp_path, monkeypatch)


def test_the_params_name_the_rules_that_there_are() -> None:
    assert tuple(BUILT_IN) == RULES
    for name in RULES:
        rule = rule_of(search(rule=name, exploration=0.25), None)
        assert (type(rule), rule.exploration) == (BUILT_IN[name], 0.25)
    for bad in ("PUCT", "enumerate", "thompson:", ":Thompson", "a b:C"):
        with pytest.raises(ValidationError, match="write one of puct, uct, random, or module:CLASS"):
            search(rule=bad)


def test_the_rule_of_the_docs_searches_a_tree(root: Path) -> None:
    chosen = []
    for _ in range(2):
        rule = rule_of(search(rule="thompson:Thompson"), root)
        assert rule.exploration == 1.5
        tree, names = make_tree(make_problem("p", ("?", 1)), LONGEST, rule), list[str]()
        rollouts, rng = tree.samples(3), Random(0)
        while rollouts and tree.completions < 30:
            for rollout in rollouts:
                prefix = tree.prefix(rollout.from_node)
                names.append("-".join(map(str, prefix.tokens)))
                written = completion([*prefix.tokens, rng.choice([5, 6, 7]), 9, 5, 9, 1][:LONGEST], *[0.5] * LONGEST)
                tree.update(rollout, written, str(written.tokens), OK, rng.choice([0.0, 0.5]))
            rollouts = tree.propose(4)
        assert tree.root.visits == len(names) > 20
        assert tree.root.pending == len(rollouts)
        chosen.append(names)
    assert chosen[0] == chosen[1]  # a rule draws from what the tree gives it
    assert any(a != b for a, b in pairwise(chosen[0]))


def test_a_rule_may_have_its_own_expansion_and_backpropagation() -> None:
    class Best(Rule):
        """Uniform priors, the best reward as value, and the node of the best value."""

        def choose(self, root: Node, rng: Random) -> Node | None:
            return max(open_nodes(root), key=lambda node: (node.value, rng.random()), default=None)

        def expand(self, child: Node) -> None:
            child.prior = 1.0

        def update(self, leaf: Node | None, reward: float) -> None:
            while leaf is not None:
                leaf.visits, leaf.total = 1, max(leaf.total, reward)
                leaf = leaf.parent

    tree = make_tree(make_problem("p", ("?", 1)), LONGEST, Best())
    for rollout, token, reward in zip(tree.samples(3), (5, 6, 7), (0.0, 0.75, 0.5), strict=True):
        tree.update(rollout, completion([token, 9, 1], 0.1), str(token), OK, reward)
    assert [(node.prior, node.value) for node in tree.root.children] == [(1.0, 0.0), (1.0, 0.75), (1.0, 0.5)]
    assert tree.root.unexpanded == 1.0
    (rollout,) = tree.propose(1)
    assert rollout.from_node in (tree.root, tree.root.children[1])
    tree.update(rollout, completion([8, 9, 1]), "8", [Result(status="failed")], 0.0)
    assert tree.root.value == 0.75


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "class Rule:\n    def choose(self, root, rng): ...",
            r"wrong:Rule has no expand; let it inherit tasks\.search\.rules\.Rule$",
        ),
        ("class Other: ...", r"wrong:Rule: module 'wrong' has no attribute 'Rule'; name a class"),
        ("class Rule:\n    def __init__(self, c): ...", "wrong:Rule: .*missing 1 required .*; name a class"),
        ("import no_such_module", "wrong:Rule: No module named 'no_such_module'; name a class"),
    ],
)
def test_a_class_that_is_no_rule_is_one_line(root: Path, text: str, message: str) -> None:
    (root / "wrong.py").write_text(text)
    with pytest.raises(GraftError, match=rf"^search\.rule: {message}[^\n]*$" if "name a class" in message else message):
        rule_of(search(rule="wrong:Rule"), root)


def test_a_rule_that_chooses_a_leaf_is_refused() -> None:
    class Leaf(Rule):
        def choose(self, root: Node, rng: Random) -> Node | None:  # noqa: ARG002
            return root.children[0].children[0]

    tree = make_tree(make_problem("p", ("?", 1)), LONGEST, Leaf())
    (sample,) = tree.samples(1)
    tree.update(sample, completion([5, 9, 1]), "", OK, 0.0)
    with pytest.raises(GraftError, match=r"^search\.rule: Leaf\.choose returned a node that cannot be expanded; "):
        tree.propose(1)


def test_the_search_alone_depends_on_the_source_of_a_users_rule(root: Path) -> None:
    for name in ("params.yaml", "dvc.yaml"):
        (root / name).write_text((REPOSITORY / name).read_text())
    params = shipped_params(search={"rule": "thompson:Thompson"})
    before = {stage: listed_digests(root, stage, params) for stage in MODULES}
    (root / "thompson.py").write_text((root / "thompson.py").read_text() + "# an edit\n")
    after = {stage: listed_digests(root, stage, params) for stage in MODULES}
    assert {stage for stage in MODULES if before[stage] != after[stage]} == {"search"}
    assert before["search"].keys() - listed_digests(root, "search", shipped_params()).keys() == {"search.rule"}
    with pytest.raises(GraftError, match=r"^search\.rule: .*thompson\.py defines no 'Thomson' .*'Thompson'"):
        listed_digests(root, "search", shipped_params(search={"rule": "thompson:Thomson"}))


@pytest.mark.parametrize(
    "file",
    ["README.md", "docs/index.md", "docs/search.md", "docs/architecture.md", "dvc.yaml", "params.yaml", "llms.txt"],
)
def test_the_search_is_introduced_as_monte_carlo_tree_search(file: str) -> None:
    assert re.search(r"Monte Carlo tree search\s+\(MCTS\)", (REPOSITORY / file).read_text())
