"""Laws of the revisions of one problem, fed by hand: no model, no sandbox."""

from collections import Counter
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.environments.workflow import WorkflowEnvironment
from tasks.programs.answer_check import solved_share
from tasks.programs.operators.model import Prompt
from tasks.programs.operators.model_calls import MAX_PROMPT
from tasks.records import Completion, Result
from tasks.search.node import Node, node_id, tree_records
from tasks.search.policy_tree import FoundWorkflow, PolicyTree
from tasks.search.revisions.problem_revisions import (
    NO_DESCRIPTION,
    Draft,
    ProblemRevisions,
    revision_metrics,
    select_parent,
)
from tasks.search.revisions.prompt import Revision
from tasks.search.rules import AFLOW_BEST, soft_mix
from tests.support.searches import make_problem, make_tree, nodes_of

ANSWERS = [40414, 40424, 40434]
PROBLEM = make_problem("p", ("asked?", ANSWERS[0]), *((f"sibling {answer - 7}?", answer) for answer in ANSWERS[1:]))
WRITTEN = Completion(tokens=[5, 1], logprobs=[])
LOST = [Result(status="failed", error="no reply")] * 3


def solving(right: int) -> list[Result]:
    """The first `right` questions are."""
    return [Result(status="ok", value=answer if place < right else 0) for place, answer in enumerate(ANSWERS)]


def tree_of(*workflows: tuple[str, list[Result]]) -> PolicyTree:
    """With independent samples that wrote these workflows."""
    tree = make_tree(PROBLEM, 8)
    for place, (rollout, (code, results)) in enumerate(zip(tree.samples(len(workflows)), workflows, strict=True)):
        written = Completion(tokens=[10 + place, 1], logprobs=[log(0.1), 0.0])
        tree.update(rollout, written, code, results, solved_share(results, tree.problem.answers))
    return tree


def revisions_of(tree: PolicyTree, most: int = 20, u: float = 0.999) -> ProblemRevisions:
    """`u` 0 asks for fresh ones, close to 1 for revisions of the best workflow's last equal."""
    return ProblemRevisions(WorkflowEnvironment(), tree, most, lambda _: u)


def take(
    revisions: ProblemRevisions, change: str, code: str, results: list[Result], parent: str | None = "one"
) -> bool:
    """One revision of `parent`, None: a fresh one. Returns whether it was run."""
    draft = Draft(revisions.tree.workflows[parent] if parent else None, Prompt("revision", ""))
    revision = Revision(change, code)
    new = revisions.is_new(draft, revision)
    revisions.update(draft, revision, results if new else None, WRITTEN if new else None)
    return new


# --- the parent


def found(name: str, reward: float, results: list[Result] | None = None) -> FoundWorkflow:
    return FoundWorkflow(name, results or solving(0), reward, Node(name, None, 1.0, 0.0), None)


def test_a_parent_is_drawn_by_aflows_rule_from_the_root_and_the_best_three() -> None:
    pool = [found(name, reward) for name, reward in [("a", 0.1), ("b", 0.3), ("c", 0.25), ("d", 0.2), ("e", 0.0)]]
    draws = 20_000
    counts = Counter(each.code if (each := select_parent(pool, (n + 0.5) / draws)) else "" for n in range(draws))
    scores = np.array([[0.0, 0.3, 0.25, 0.2]])
    (expected,) = soft_mix(scores, np.ones((1, AFLOW_BEST + 1), dtype=np.bool_))
    assert [counts[name] / draws for name in ("", "b", "c", "d")] == pytest.approx(list(expected), abs=1e-3)
    assert set(counts) == {"", "b", "c", "d"}


def test_among_equals_the_earliest_are_the_best_and_some_are_never_parents() -> None:
    unfit = [found("", 0.9), found("x" * (MAX_PROMPT + 1), 0.9), found("lost", 0.9, LOST)]
    equals = [found(name, 0.5) for name in "abcd"]
    drawn = {each.code for n in range(100) if (each := select_parent([*unfit, *equals], n / 100))}
    assert drawn == {"a", "b", "c"}
    assert all(select_parent(unfit, n / 10) is None for n in range(10))
    assert select_parent([], 0.999) is None


# --- the tree


def test_a_revision_is_a_child_of_its_parents_leaf_and_counts_up_to_the_root() -> None:
    tree = tree_of(("one", solving(1)), ("two", solving(0)))
    parent = tree.workflows["one"].leaf
    revisions = revisions_of(tree)
    assert take(revisions, "first", "new", solving(2))
    assert take(revisions, "second", "newer", solving(0))
    assert take(revisions, "idea", "fresh", solving(0), parent=None)
    one, two = parent.children
    assert (one.statement, one.depth, one.visits, one.value) == ("first", parent.depth + 1, 1, pytest.approx(2 / 3))
    assert (parent.visits, parent.value) == (3, pytest.approx((1 + 2 + 0) / 9))
    assert (tree.root.visits, tree.completions, tree.root.value) == (5, 5, pytest.approx((1 + 0 + 2 + 0 + 0) / 15))
    new, fresh = tree.workflows["new"], tree.workflows["fresh"]
    assert (new.leaf, new.from_node, new.revisions, new.revision_completions) == (one, parent, 1, [WRITTEN])
    assert (fresh.leaf.parent, fresh.from_node, fresh.leaf.statement) == (tree.root, tree.root, "idea")
    kept = {row.node_id: row.statement for row in tree_records("p", tree.root)}
    assert (kept[node_id(two)], kept[node_id(fresh.leaf)]) == ("second", "idea")  # though they earned nothing


def test_a_revision_can_be_revised() -> None:
    tree = tree_of(("one", solving(1)))
    revisions = revisions_of(tree, u=0.3)
    take(revisions, "first", "new", solving(2))
    (draft,) = revisions.drafts(1)
    assert draft.parent is tree.workflows["new"]
    assert "```python\nnew```" in draft.prompt.text
    take(revisions, "further", "newest", solving(3), parent="new")
    assert tree.workflows["newest"].leaf.parent is tree.workflows["new"].leaf
    assert [node.visits for node in tree.workflows["newest"].leaf.path()] == [3, 2, 1]
    assert revisions.drafts(4) == []  # solved


CODES, CHANGES, RIGHTS = st.integers(0, 4), st.integers(0, 3), st.integers(0, 2)


@settings(max_examples=60)
@given(st.lists(st.tuples(CODES, CHANGES, RIGHTS, st.floats(0, 0.999), st.integers(1, 3)), max_size=14))
def test_every_reply_is_counted_and_no_code_is_run_twice(replies: list[tuple[int, int, int, float, int]]) -> None:
    """In waves: (code, change, right, draw, drafts before the next replies)."""
    tree = tree_of(("code 0", solving(1)), ("code 1", LOST))
    revisions = ProblemRevisions(WorkflowEnvironment(), tree, len(replies), [u for *_, u, _ in replies].__getitem__)
    rest, ran = list(replies), []
    while rest:
        wave, rest = rest[: rest[0][-1]], rest[rest[0][-1] :]
        drafts = revisions.drafts(len(wave))
        read = [
            (draft, Revision(f"change {change}" if change else "", f"code {code}"), solving(right))
            for draft, (code, change, right, *_) in zip(drafts, wave, strict=True)
        ]
        new = [revisions.is_new(draft, revision) for draft, revision, _ in read]
        for fresh, (draft, revision, results) in zip(new, read, strict=True):
            revisions.update(draft, revision, results if fresh else None, None)
            ran += [revision.code] * fresh
    assert revisions.drafts(1) == []
    assert len(ran) == len(set(ran)) == len(tree.workflows) - 2
    assert tree.completions == tree.root.visits == len(replies) + 2
    numbers = revision_metrics([tree])
    assert (numbers["revisions"], numbers["revisions_too_long"]) == (len(replies), len(ran))
    assert numbers["revisions_repeated"] == len(replies) - len(ran)
    for node in nodes_of(tree.root):
        assert node.visits >= sum(child.visits for child in node.children)
        changes = [child.statement for child in node.children if child.revision and child.statement != NO_DESCRIPTION]
        assert len(changes) == len(set(changes))


# --- what is asked


def test_the_experience_of_a_parent_lists_its_own_changes_only() -> None:
    tree = tree_of(("one", solving(1)), ("two", solving(1)))
    revisions = ProblemRevisions(WorkflowEnvironment(), tree, 9, [0.3, 0.5].__getitem__)
    take(revisions, "worse change", "a", solving(0))
    take(revisions, "unknown change", "b", LOST)
    take(revisions, "equal change", "c", solving(1))
    take(revisions, "other change", "d", solving(0), parent="two")
    of_one, of_two = revisions.drafts(2)
    assert of_one.parent is tree.workflows["one"]
    assert of_two.parent is tree.workflows["two"]
    assert "- worse change (before 1 of 3 right, then 0)\n- equal change (" in of_one.prompt.text
    assert "unknown change" not in of_one.prompt.text
    assert of_two.prompt.text.count("change (") == of_two.prompt.text.count("- other change (") == 1


@given(st.integers(0, 2), st.integers(0, 3), st.floats(0, 0.999))
def test_no_prompt_holds_an_expected_answer_or_what_a_sibling_asks(before: int, after: int, u: float) -> None:
    tree = tree_of(("one", solving(before)), ("two", solving(0)))
    revisions = revisions_of(tree, u=u)
    take(revisions, "a change", "new", solving(after))
    for draft in revisions.drafts(2):
        for secret in [str(answer) for answer in ANSWERS] + [sibling.question for sibling in PROBLEM.siblings]:
            assert secret not in draft.prompt.text


def test_a_wave_numbers_equal_prompts_and_the_drafts_stop_at_the_maximum_or_a_solution() -> None:
    prompts = [draft.prompt for draft in revisions_of(tree_of(("one", solving(1)))).drafts(3)]
    assert [prompt.nth for prompt in prompts] == [0, 1, 2]
    assert len({prompt.text for prompt in prompts}) == 1
    revisions = revisions_of(tree_of(("one", solving(1))), most=5)
    assert [len(revisions.drafts(3)) for _ in range(3)] == [3, 2, 0]
    assert revisions_of(tree_of(("one", solving(0)), ("two", solving(3)))).drafts(3) == []


def test_a_workflow_of_unknown_reward_changes_no_value() -> None:
    tree = tree_of(("one", solving(1)), ("two", solving(2)))
    take(revisions_of(tree), "unknown", "new", LOST)
    assert tree.root.value == pytest.approx(1 / 2)
    assert tree.workflows["new"].reward == 0  # no more than it is known to solve
