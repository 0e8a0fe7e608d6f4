"""The stage `collect`, through its files."""

import json
from pathlib import Path

import pytest

from tasks.artifacts import read_jsonl, write_json, write_jsonl
from tasks.collect.task import run
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.programs.contract import HEADER, workflow_id
from tasks.programs.workflow_files import write_workflows
from tasks.records.policy import Lineage
from tasks.records.problems import Problem
from tasks.records.programs import Result
from tasks.records.search import AskedProblem, Completion, Engine
from tasks.trajectories import Trajectory
from tests.support.records import make_workflow
from tests.support.stage_params import stage_params

CODE = HEADER + "    return n[0] + n[1]\r\n"  # the very bytes are given back
PROBLEM = Problem(problem_id="p", question="2 and 3?", answer=5, source="test")
ASKED = AskedProblem(split="train", problem=PROBLEM, prompt="2 and 3?\n", prompt_tokens=[7, 8])
WORKFLOW = make_workflow(
    CODE,
    visits=2,
    prior=0.5,
    result=Result(status="ok", value=5),
    completions=[Completion(tokens=[1, 2], logprobs=[-0.5, -0.5])] * 2,
    sampled=2,
)
PARAMS = stage_params("collect")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A project after the search of round 1."""
    place = Layout(tmp_path)
    write_json(
        place.policy(0) / "lineage.json", Lineage(version="v0", parent=None, base="scratch", round=0, holds=["adapter"])
    )
    write_workflows(place.workflows(1), [([ASKED], [WORKFLOW], [])])
    return place


def test_trajectories_hold_the_code_and_the_version_of_the_policy(layout: Layout) -> None:
    run(layout, PARAMS, 1)
    (trajectory,) = read_jsonl(layout.trajectories(1), Trajectory)
    assert [member.code for member in trajectory.members] == [CODE, CODE]
    assert trajectory.model_dump(include=set(AskedProblem.model_fields)) == ASKED.model_dump()
    assert trajectory.policy_version == "v0"
    assert json.loads(layout.metrics("collect", 1).read_text())["completions"] == 2
    before = layout.trajectories(1).read_bytes()
    run(layout, PARAMS, 1)
    assert layout.trajectories(1).read_bytes() == before


def test_the_server_that_sampled_is_in_each_trajectory_and_nothing_is_where_graft_did(layout: Layout) -> None:
    run(layout, PARAMS, 1)
    assert "engine" not in layout.trajectories(1).read_text()
    engine = Engine(name="vllm", version="0.32.0", dtype="bfloat16")
    write_workflows(layout.workflows(1), [([ASKED], [WORKFLOW], [])], engine)
    run(layout, PARAMS, 1)
    assert [trajectory.engine for trajectory in read_jsonl(layout.trajectories(1), Trajectory)] == [engine]


def test_completions_that_are_all_the_same_are_warned_of(layout: Layout, caplog: pytest.LogCaptureFixture) -> None:
    run(layout, PARAMS, 1)
    assert caplog.text == ""  # of one problem
    names = [f"p{number}" for number in range(8)]
    problems = [PROBLEM.model_copy(update={"problem_id": name}) for name in names]
    asked = [ASKED.model_copy(update={"problem": problem}) for problem in problems]
    found = [WORKFLOW.model_copy(update={"problem_id": name}) for name in names]
    write_workflows(layout.workflows(1), [(asked, found, [])])
    run(layout, PARAMS, 1)
    assert "round 1: 100% of the completions, over all problems, are the same one" in caplog.text


OTHER = HEADER + "    return n[0] * n[1]\n"


@pytest.mark.parametrize("code", ["", "(" * 5000, CODE.replace("\r\n", "\n"), CODE + "# better\n"])
def test_code_that_the_search_did_not_run_is_an_error_of_that_workflow_alone(
    layout: Layout, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    alone = {"completions": [Completion(tokens=[3], logprobs=[-0.1])], "sampled": 1}
    other = WORKFLOW.model_copy(update={"workflow_id": workflow_id(OTHER), "code": OTHER, **alone})
    damaged = WORKFLOW.model_copy(update={"code": code})
    write_jsonl(layout.workflows(1) / "index.jsonl", [damaged, other])
    run(layout, PARAMS, 1)
    (trajectory,) = read_jsonl(layout.trajectories(1), Trajectory)
    what = f"changed since the search ran it ({len(code.encode())} bytes)"
    result = Result(status="failed", error=f"workflow: {what}")
    assert sorted(((m.code, m.result) for m in trajectory.members), key=lambda pair: pair[0]) == [
        ("", result),
        ("", result),
        (OTHER, other.result),
    ]
    assert f"index.jsonl: workflow {WORKFLOW.workflow_id} of p: {what}; run graft stage search@1 again" in caplog.text


def test_missing_completions_and_a_missing_policy_are_named(layout: Layout) -> None:
    write_jsonl(layout.workflows(1) / "index.jsonl", [])
    with pytest.raises(GraftError, match=r"index\.jsonl: no completions in it"):
        run(layout, PARAMS, 1)
    (layout.policy(0) / "lineage.json").unlink()
    with pytest.raises(GraftError, match=r"lineage\.json: no such file"):
        run(layout, PARAMS, 1)
