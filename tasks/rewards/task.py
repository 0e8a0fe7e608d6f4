"""The stage `reward`: trajectories → rewarded trajectories."""

import logging

from tasks.artifacts import read_jsonl, write_json, write_jsonl
from tasks.environments.named import environment_in
from tasks.layout import Layout
from tasks.params import Params
from tasks.records import Trajectory
from tasks.rewards.metrics import metrics_of, remarks
from tasks.rewards.rewarding import reward
from tasks.rewards.score import check_failures

logger = logging.getLogger(__name__)


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Read the round's `trajectories.jsonl`, write `rewarded.jsonl`."""
    assert round is not None
    environment = environment_in(layout.root, params, params.rewards.strict)
    trajectories = read_jsonl(layout.trajectories(round), Trajectory)
    rewarded, measured = reward(layout.root, params, environment, trajectories)
    check_failures(str(layout.trajectories(round)), rewarded, params.rewards.failed_limit, measured)
    write_jsonl(layout.rewarded(round), rewarded)
    numbers = metrics_of(environment, rewarded)
    for remark in remarks(numbers):
        logger.warning("round %d: %s", round, remark)
    write_json(layout.metrics("reward", round), numbers)
