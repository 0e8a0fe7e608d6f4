"""The stage `collect`, through its files."""

import json
from pathlib import Path

import pytest

from tasks.artifacts import read_jsonl, write_json, write_jsonl, write_text
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params import Params, load_params, restrict
from tasks.records import Completion, Lineage, Problem, Result, Trajectory, Workflow
from tasks.trajectories.task import run
from tasks.workflows.contract import HEADER, workflow_id

REPOSITORY = Path(__file__).parents[3]
CODE = HEADER + "    return n[0] + n[1]\r\n"  # the file must give back the very bytes
PROBLEM = Problem(problem_id="p", question="2 and 3?", answer=5, source="test")
WORKFLOW = Workflow(
    problem_id="p",
    split="train",
    workflow_id=workflow_id(CODE),
    path=f"p/{workflow_id(CODE)}.py",
    proposer="sample",
    parent_id=None,
    depth=1,
    visits=2,
    value=1.0,
    prior=0.5,
    result=Result(status="ok", value=5),
    sibling_results=[],
    completions=[Completion(tokens=[1, 2], logprobs=[-0.5, -0.5])] * 2,
    sampled=2,
)


def params() -> Params:
    return restrict(
        load_params(REPOSITORY / "params.yaml"), ["seed", "policy.base", "rewards.agreement", "grpo.group_size"]
    )


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A project after the search of round 1."""
    place = Layout(tmp_path)
    write_jsonl(place.problems("train"), [PROBLEM])
    write_jsonl(place.problems("validation"), [])
    write_json(place.policy(0) / "lineage.json", Lineage(version="v0", parent=None, base="scratch", round=0))
    write_jsonl(place.workflows(1) / "index.jsonl", [WORKFLOW])
    write_text(place.workflows(1) / WORKFLOW.path, CODE)
    return place


def test_trajectories_hold_the_code_and_the_version_of_the_policy(layout: Layout) -> None:
    run(layout, params(), 1)
    (trajectory,) = read_jsonl(layout.trajectories(1), Trajectory)
    assert trajectory.workflow_codes == [CODE, CODE]
    assert trajectory.policy_version == "v0"
    assert json.loads(layout.metrics("collect", 1).read_text())["completions"] == 2
    before = layout.trajectories(1).read_bytes()
    run(layout, params(), 1)
    assert layout.trajectories(1).read_bytes() == before


def test_a_missing_code_file_is_named(layout: Layout) -> None:
    (layout.workflows(1) / WORKFLOW.path).unlink()
    with pytest.raises(GraftError, match=rf"{WORKFLOW.path}: no such file"):
        run(layout, params(), 1)
    assert not layout.trajectories(1).exists()


def test_a_changed_code_file_is_named(layout: Layout) -> None:
    write_text(layout.workflows(1) / WORKFLOW.path, CODE + "# better\n")
    with pytest.raises(
        GraftError, match=rf"{WORKFLOW.path}: changed since the search ran it; run graft stage search@1"
    ):
        run(layout, params(), 1)


def test_no_completions_are_an_error(layout: Layout) -> None:
    write_jsonl(layout.workflows(1) / "index.jsonl", [])
    with pytest.raises(GraftError, match=r"index\.jsonl: no completions in it"):
        run(layout, params(), 1)


def test_a_missing_policy_is_named(layout: Layout) -> None:
    (layout.policy(0) / "lineage.json").unlink()
    with pytest.raises(GraftError, match=r"lineage\.json: no such file"):
        run(layout, params(), 1)
