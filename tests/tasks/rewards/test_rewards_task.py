"""The stage `reward`, through its files."""

import json
import logging
from pathlib import Path

import pytest

from tasks.artifacts import read_jsonl, write_jsonl
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params import load_params, restrict
from tasks.records import Problem, Result, RewardedTrajectory, Trajectory
from tasks.rewards.task import run
from tasks.workflows.sandbox import SANDBOX_DIED

REPOSITORY = Path(__file__).parents[3]
PARAMS = restrict(load_params(REPOSITORY / "params.yaml"), ["modules_sha256", "rewards", "policy.max_new_tokens"])


def group_of(*results: Result) -> Trajectory:
    size = len(results)
    return Trajectory(
        problem_id="p",
        split="train",
        problem=Problem(problem_id="p", question="2 and 3?", answer=5, source="test"),
        prompt="2 and 3?\n",
        workflow_codes=["code"] * size,
        workflow_ids=["w"] * size,
        proposers=["sample"] * size,
        results=list(results),
        sibling_results=[[]] * size,
        tokens=[[1]] * size,
        logprobs=[[-0.1]] * size,
        policy_version="v",
    )


def test_rewards_are_written_beside_the_trajectories(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    write_jsonl(layout.trajectories(1), [group_of(Result(status="ok", value=5), Result(status="timeout"))])
    run(layout, PARAMS, 1)
    (rewarded,) = read_jsonl(layout.rewarded(1), RewardedTrajectory)
    full = PARAMS.rewards.correctness + PARAMS.rewards.runs
    assert rewarded.rewards == [pytest.approx(full), 0.0]
    metrics = json.loads(layout.metrics("reward", 1).read_text())
    assert metrics["epoch/accumulated_reward"] == pytest.approx(full)
    assert metrics["epoch/mean_reward"] == pytest.approx(full / 2)


def test_a_round_whose_rewards_are_all_alike_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    layout, right = Layout(tmp_path), Result(status="ok", value=5)
    write_jsonl(layout.trajectories(3), [group_of(right, Result(status="timeout"))])
    with caplog.at_level(logging.WARNING):
        run(layout, PARAMS, 3)
        assert caplog.text == ""
        write_jsonl(layout.trajectories(3), [group_of(right, right)])
        run(layout, PARAMS, 3)
    assert "round 3: rewards.correctness is 1 for every completion: it teaches nothing" in caplog.text


def test_a_sandbox_that_dies_stops_the_stage_with_nothing_written(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    write_jsonl(
        layout.trajectories(1), [group_of(Result(status="ok", value=5), Result(status="failed", error=SANDBOX_DIED))]
    )
    with pytest.raises(GraftError, match=r"trajectories\.jsonl: 1 rewards \(50%\) could not be computed"):
        run(layout, PARAMS, 1)
    assert not layout.rewarded(1).exists()
    assert not layout.metrics("reward", 1).exists()


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.trajectories(2).parent.mkdir(parents=True)
    layout.trajectories(2).write_text('{"problem_id": "p"}\n')
    with pytest.raises(GraftError, match=r"trajectories\.jsonl:1: split: Field required"):
        run(layout, PARAMS, 2)
