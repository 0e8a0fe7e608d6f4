"""The stage `reward`: trajectories → rewarded trajectories."""

from tasks.artifacts import read_jsonl, write_json, write_jsonl
from tasks.layout import Layout
from tasks.params import Params
from tasks.records import Trajectory
from tasks.rewards.metrics import metrics_of
from tasks.rewards.score import check_failures, score


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Read the round's `trajectories.jsonl`, write `rewarded.jsonl`."""
    assert round is not None
    trajectories = read_jsonl(layout.trajectories(round), Trajectory)
    rewarded = [score(trajectory, params.rewards, params.policy.max_new_tokens) for trajectory in trajectories]
    check_failures(str(layout.trajectories(round)), rewarded, params.rewards.failed_limit)
    write_jsonl(layout.rewarded(round), rewarded)
    write_json(layout.metrics("reward", round), metrics_of(rewarded))
