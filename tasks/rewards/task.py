"""The stage `reward`: trajectories → rewarded trajectories."""

import logging
from collections.abc import Sequence

from tasks.artifacts import read_jsonl, write_json, write_jsonl
from tasks.environments.named import environment_in
from tasks.layout import Layout
from tasks.modules import modules_of_terms, refuse_changed
from tasks.params import Params
from tasks.records import Trajectory
from tasks.rewards.metrics import metrics_of, remarks
from tasks.rewards.own import own_column
from tasks.rewards.score import Column, check_failures, score

logger = logging.getLogger(__name__)


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Read the round's `trajectories.jsonl`, write `rewarded.jsonl`."""
    assert round is not None
    environment = environment_in(layout.root, params, params.rewards.strict)
    trajectories = read_jsonl(layout.trajectories(round), Trajectory)
    measured = _measure(layout, params, trajectories)
    rewarded = [
        score(
            environment,
            each,
            params.rewards,
            params.policy.max_new_tokens,
            {name: column[place] for name, column in measured.items()},
        )
        for place, each in enumerate(trajectories)
    ]
    check_failures(str(layout.trajectories(round)), rewarded, params.rewards.failed_limit, measured)
    write_jsonl(layout.rewarded(round), rewarded)
    numbers = metrics_of(environment, rewarded)
    for remark in remarks(numbers):
        logger.warning("round %d: %s", round, remark)
    write_json(layout.metrics("reward", round), numbers)


def _measure(layout: Layout, params: Params, trajectories: Sequence[Trajectory]) -> dict[str, list[Column]]:
    """The terms that are no pure functions of a trajectory {name: [P, G]}: the user's own, and the model's."""
    rewards = params.rewards
    _refuse_changed(layout, params)
    measured = {
        term.name: own_column(layout.root, term, trajectories, rewards.seconds, rewards.failed_limit)
        for term in rewards.own
        if term.weight > 0
    }
    _refuse_changed(layout, params)  # a process that was started anew has loaded the source anew
    if rewards.model is not None and rewards.model.weight > 0:
        from tasks.rewards.model import model_column

        measured["model"] = model_column(layout.root, rewards.model, trajectories)
    return measured


def _refuse_changed(layout: Layout, params: Params) -> None:
    rewards = params.rewards
    refuse_changed(layout.root, modules_of_terms(rewards), rewards.own_sha256, "rewards.own_sha256")
