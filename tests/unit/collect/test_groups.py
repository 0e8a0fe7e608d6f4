"""Laws of the groups: their members, their order, and that both outcomes occur."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.collect.groups import (
    build_trajectories,
    group_candidates,
    pair_with_workflows,
    training_group,
)
from tasks.collect.metrics import TrajectoryCounts
from tasks.environments.workflow import WorkflowEnvironment
from tasks.errors import GraftError
from tasks.programs.contract import workflow_id
from tasks.records.problems import Problem, Sibling, Split
from tasks.records.programs import Result
from tasks.records.search import AskedProblem, Completion, Workflow
from tasks.trajectories import Trajectory
from tests.support.groups import make_group
from tests.support.records import make_workflow

WORKFLOW = WorkflowEnvironment()

PROBLEM = Problem(
    problem_id="p", question="2 and 3?", answer=5, source="test", siblings=[Sibling(question="3 and 4?", answer=7)]
)


def workflow(code: str, solved: int, samples: int, tree: int, problem: str = "p", split: Split = "train") -> Workflow:
    """A workflow that solves nothing (0), the problem (1), problem and sibling (2) or the sibling alone (3)."""
    values = [5 if solved in (1, 2) else 0, 7 if solved > 1 else 0]
    results = [Result(status="ok", value=value) for value in values]
    start = int(workflow_id(code)[:4], 16)
    return make_workflow(
        code,
        problem_id=problem,
        split=split,
        proposer="sample" if samples else "tree",
        visits=samples + tree,
        value=(0, 0.5, 1, 0.5)[solved],
        prior=0.5,
        result=results[0],
        sibling_results=results[1:],
        completions=[Completion(tokens=[start, place], logprobs=[-0.5, -0.25]) for place in range(samples + tree)],
        sampled=samples,
    )


def grouped(workflows: list[Workflow], size: int, seed: int = 0, problem: Problem = PROBLEM) -> Trajectory:
    searched = pair_with_workflows([asked_of(problem)], workflows)
    (trajectory,) = build_trajectories(WORKFLOW, searched, "v1", size, seed)
    return trajectory


def asked_of(problem: Problem) -> AskedProblem:
    return AskedProblem(split="train", problem=problem, prompt=f"{problem.question}\n", prompt_tokens=[7, 8])


def ids_of(trajectory: Trajectory) -> list[str]:
    return [member.workflow_id for member in trajectory.members]


def proposers_of(trajectory: Trajectory) -> list[str]:
    return [member.proposer for member in trajectory.members]


counts = st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 5)).filter(lambda c: c[1] + c[2] > 0)
pools = st.lists(counts, min_size=1, max_size=6).map(
    lambda drawn: [workflow(f"w{place}", *one) for place, one in enumerate(drawn)]
)


@settings(max_examples=150)
@given(pool=pools, size=st.integers(2, 14), seed=st.integers(0, 99))
def test_laws_of_a_training_group(pool: list[Workflow], size: int, seed: int) -> None:
    members = group_candidates(WORKFLOW, PROBLEM, pool, seed)
    group = training_group(members, size)
    samples, tree = ([member for member in members if member.proposer == name] for name in ("sample", "tree"))
    assert len(group) == min(size, len(members))
    there = {id(member) for member in group}
    assert len(there) == len(group), "a completion occurs in a group once"
    lost = [member for member in samples[:size] if id(member) not in there]
    assert len(lost) <= 2
    if lost:  # given up for a solution or a hard negative, where no failure of the tree had a place
        assert sum(member.share == 1 for member in group) == 1 or sum(is_hard(member.workflow) for member in group) == 1
        assert all(member.share == 1 or is_hard(member.workflow) for member in group if member.proposer == "tree")
    if any(member.share == 1 for member in members):
        assert any(member.share == 1 for member in group)
    if len(samples) < size and any(member.share < 1 for member in tree):
        assert any(member.share < 1 for member in group)
    if any(is_hard(member.workflow) for member in members):
        assert any(is_hard(member.workflow) for member in group)
    assert group_candidates(WORKFLOW, PROBLEM, pool[::-1], seed) == members
    had = Counter(member.workflow.workflow_id for member in group)  # a duplicate only where no equal is left out
    left = [member for member in tree if id(member) not in there]
    for twice in [m for m in group if m.proposer == "tree" and had[m.workflow.workflow_id] > 1]:
        assert not [m for m in left if m.share == twice.share and not had[m.workflow.workflow_id]]


def is_hard(workflow: Workflow) -> bool:
    """Right on the problem, wrong on its sibling."""
    return (workflow.result.value, workflow.sibling_results[0].value) == (5, 0)


@settings(max_examples=60)
@given(pool=pools)
def test_independent_samples_that_all_fit_are_not_chosen_by_outcome(pool: list[Workflow]) -> None:
    """As those of validation, which have no tree."""
    samples = [one.model_copy(update={"completions": one.completions[: one.sampled]}) for one in pool if one.sampled]
    size = max(sum(one.sampled for one in pool), 1)
    group = training_group(group_candidates(WORKFLOW, PROBLEM, samples, 0), size)
    assert len(group) == sum(one.sampled for one in pool)
    answers_changed = PROBLEM.model_copy(update={"answer": -1, "siblings": [Sibling(question="?", answer=-1)]})
    again = training_group(group_candidates(WORKFLOW, answers_changed, samples, 0), size)
    assert [member.order for member in again] == [member.order for member in group]


@pytest.mark.parametrize(
    ("pool", "size", "expected"),
    [
        ({"a": (2, 3, 0), "b": (0, 1, 0)}, 8, "a a a b"),  # independent samples may be alike
        ({"a": (0, 2, 0), "none": (0, 0, 3), "half": (1, 0, 1), "full": (2, 0, 1)}, 5, "a a full half none"),
        ({"a": (2, 2, 0), "full": (2, 0, 5), "half": (3, 0, 1), "none": (0, 0, 1)}, 5, "a a full full none"),
        ({"a": (2, 2, 0), "full": (2, 0, 5), "half": (1, 0, 1), "none": (0, 0, 1)}, 5, "a a full full half"),
        ({"a": (2, 2, 0), "b": (0, 2, 0), "hard": (1, 0, 1), "none": (0, 0, 9)}, 4, "a a b hard"),
        ({"a": (0, 2, 3), "often": (0, 0, 9), "b": (0, 0, 1), "c": (0, 0, 1)}, 6, "a a b c often often"),
        ({"a": (0, 6, 0), "full": (2, 0, 1)}, 4, "a a a full"),
    ],
    ids=["duplicates", "best first", "a failure", "a hard negative", "among samples", "no crowding", "a solution"],
)
def test_who_is_in_a_group(pool: dict[str, tuple[int, int, int]], size: int, expected: str) -> None:
    """Code → (what it solves, samples, completions of the tree), as in `workflow`."""
    trajectory = grouped([workflow(code, *counts) for code, counts in pool.items()], size)
    names = {workflow_id(code): code for code in pool}
    ids = [names[each] for each in ids_of(trajectory)]
    assert sorted(ids) == expected.split()
    assert len({tuple(member.tokens) for member in trajectory.members}) == len(ids)
    if "full" in pool:  # samples first, then the tree's best
        assert ids == expected.split()
        assert proposers_of(trajectory) == ["sample" if code == "a" else "tree" for code in ids]


def test_without_siblings_answers_count_as_far_as_others_agree() -> None:
    alone, bare = PROBLEM.model_copy(update={"siblings": []}), {"sibling_results": []}
    pool = [workflow("wrong", 0, 2, 0).model_copy(update=bare)]
    for name, value in {"most": 9, "second": 9, "lone": 8, "constant": 5}.items():
        perturbed = {"perturbed_results": [Result(status="ok", value=value)]}
        pool.append(workflow(name, 1, 2, 1).model_copy(update={**bare, **perturbed}))
    expected = {"most": 1, "second": 1, "lone": 0.5, "constant": 0, "wrong": 1}
    for size in (4, 12, 20):
        trajectory = grouped(pool, size, problem=alone)
        counts = {member.workflow_id: member.agreement for member in trajectory.members}
        assert counts.items() <= {workflow_id(name): count for name, count in expected.items()}.items()
        assert 1 in counts.values()
    assert "agreement" not in grouped([workflow("a", 2, 1, 0)], 4).model_dump_json()


def test_problems_keep_their_order_and_those_without_completions_are_left_out() -> None:
    problems = [PROBLEM.model_copy(update={"problem_id": name}) for name in ("z", "empty", "a", "v")]
    pool = [workflow("two", 2, 2, 1, "z"), workflow("one", 1, 2, 1, "a"), workflow("three", 2, 1, 3, "v")]
    asked = [asked_of(p) for p in problems]
    trajectories = list(build_trajectories(WORKFLOW, pair_with_workflows(asked, pool), "v1", 3, 0))
    assert [one.problem_id for one in trajectories] == ["z", "a", "v"]
    counts = TrajectoryCounts(3)
    for trajectory in trajectories:
        counts.add(trajectory)
    shares = {"tree_share": pytest.approx(4 / 9), "distinct_share": pytest.approx(1 / 3)}
    shares["commonest_share"] = pytest.approx(1 / 3)
    assert counts.metrics == {"train": 3, "completions": 9, "full_groups": 3, **shares}


def test_the_most_frequent_workflow_is_counted_over_all_problems_in_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tasks.collect.metrics.COUNTED", 3)
    counts = TrajectoryCounts(3)
    for number in range(10):
        codes = ["same", "same", f"own{number}"]
        counts.add(make_group(codes, [Result(status="ok", value=1)] * 3))
    assert counts.metrics["commonest_share"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    "stray",
    [
        workflow("a", 1, 1, 0, "unknown"),
        workflow("a", 1, 1, 0, "p", "validation"),
        workflow("a", 1, 1, 0).model_copy(update={"sibling_results": []}),
    ],
    ids=["problem", "split", "siblings"],
)
def test_a_workflow_of_other_problems_is_refused(stray: Workflow) -> None:
    message = f"workflow {stray.workflow_id} of {stray.problem_id}: is of no {stray.split} problem of this search"
    with pytest.raises(GraftError, match=message):
        grouped([stray], 4)


def test_a_workflow_out_of_the_order_of_the_problems_is_refused() -> None:
    asked = [asked_of(PROBLEM.model_copy(update={"problem_id": name})) for name in "ab"]
    pool = [workflow("one", 1, 1, 0, "b"), workflow("two", 1, 1, 0, "a")]
    with pytest.raises(GraftError, match=f"workflow {pool[1].workflow_id} of a: is of no train problem"):
        list(pair_with_workflows(asked, pool))
    assert [each.asked.problem_id for each in pair_with_workflows(asked, pool[::-1])] == ["a", "b"]
