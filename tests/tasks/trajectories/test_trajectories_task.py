"""The stage `collect`, through its files."""

import json
from pathlib import Path

import pytest

from tasks.artifacts import read_jsonl, write_json, write_jsonl, write_text
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params import Params
from tasks.params_file import load_params, restrict
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
        load_params(REPOSITORY / "params.yaml"),
        [
            "seed",
            "environment",
            "environment_sha256",
            "shard",
            "policy.base",
            "operators.backend",
            "rewards.agreement",
            "grpo.group_size",
        ],
    )


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A project after the search of round 1."""
    place = Layout(tmp_path)
    write_jsonl(place.problems("train"), [PROBLEM])
    write_jsonl(place.problems("validation"), [])
    write_json(
        place.policy(0) / "lineage.json",
        Lineage(version="v0", parent=None, base="scratch", round=0, holds=["adapter"]),
    )
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


OTHER = HEADER + "    return n[0] * n[1]\n"
DAMAGES: dict[str, tuple[bytes | None, str]] = {
    "missing": (None, "no such file"),
    "not UTF-8": (CODE.encode().replace(b"solve", b"s\xfflve"), "not UTF-8 text at byte 5"),
    "UTF-16": (CODE.encode("utf-16"), "not UTF-8 text at byte 0"),
    "surrogate": (b"'\xed\xa0\x80'", "not UTF-8 text at byte 1"),
    "cut in a character": ("é".encode()[:1], "not UTF-8 text at byte 0"),
    "empty": (b"", "changed since the search ran it (0 bytes)"),
    "NUL": (b"\0" * 10, "changed since the search ran it (10 bytes)"),
    "no solve": (b"x = 1\n", "changed since the search ran it (6 bytes)"),
    "solve is no function": (b"solve = 3\n", "changed since the search ran it (10 bytes)"),
    "over 20 kB": (b"#" * 20_001, "changed since the search ran it (20001 bytes)"),
    "parentheses": (b"(" * 5000, "changed since the search ran it (5000 bytes)"),
    "minus": (b"-" * 200_000 + b"1", "changed since the search ran it (200001 bytes)"),
    "sum": (b"1" + b"+1" * 100_000, "changed since the search ran it (200001 bytes)"),
    "digits": (b"9" * 200_000, "changed since the search ran it (200000 bytes)"),
    "another line end": (CODE.replace("\r\n", "\n").encode(), "changed since the search ran it (68 bytes)"),
    "better": (CODE.encode() + b"# better\n", "changed since the search ran it (78 bytes)"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_workflow_file_is_an_error_of_that_workflow_alone(
    layout: Layout, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    alone = {"completions": [Completion(tokens=[3], logprobs=[-0.1])], "sampled": 1}
    other = WORKFLOW.model_copy(update={"workflow_id": workflow_id(OTHER), "path": "p/other.py", **alone})
    write_jsonl(layout.workflows(1) / "index.jsonl", [WORKFLOW, other])
    write_text(layout.workflows(1) / "p/other.py", OTHER)
    content, told = DAMAGES[damage]
    file = layout.workflows(1) / WORKFLOW.path
    file.unlink() if content is None else file.write_bytes(content)
    run(layout, params(), 1)
    (trajectory,) = read_jsonl(layout.trajectories(1), Trajectory)
    result = Result(status="failed", error=f"workflow file: {told}")
    assert sorted(zip(trajectory.workflow_codes, trajectory.results, strict=True), key=lambda pair: pair[0]) == [
        ("", result),
        ("", result),
        (OTHER, other.result),
    ]
    assert f"{WORKFLOW.path}: {told}; run graft stage search@1 again" in caplog.text


def test_a_folder_in_the_place_of_a_file(layout: Layout) -> None:
    file = layout.workflows(1) / WORKFLOW.path
    file.unlink()
    file.mkdir()
    run(layout, params(), 1)
    (trajectory,) = read_jsonl(layout.trajectories(1), Trajectory)
    assert "not a file" in str(trajectory.results[0].error)


def test_no_completions_are_an_error(layout: Layout) -> None:
    write_jsonl(layout.workflows(1) / "index.jsonl", [])
    with pytest.raises(GraftError, match=r"index\.jsonl: no completions in it"):
        run(layout, params(), 1)


def test_a_missing_policy_is_named(layout: Layout) -> None:
    (layout.policy(0) / "lineage.json").unlink()
    with pytest.raises(GraftError, match=r"lineage\.json: no such file"):
        run(layout, params(), 1)
