"""Stage `reward`: trajectories → their rewards."""

import logging
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from tasks.artifacts import stream_jsonl, write_json, write_jsonl, write_text
from tasks.core.sharding import fan_out, shards_of
from tasks.environments.lookup import environment_in
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.programs.answer_check import FAILED_LIMIT
from tasks.reward.compute import RewardedShard, count_completions, reward_shard
from tasks.reward.histogram import histogram_csv
from tasks.reward.metrics import RewardTotals, remarks
from tasks.reward.weighted_sum import weights_of
from tasks.trajectories import Reward, Trajectory

logger = logging.getLogger(__name__)


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Read the round's `trajectories.jsonl`, write `rewards.jsonl`, one shard in memory at a time."""
    assert round is not None
    path = layout.trajectories(round)
    total = count_completions(stream_jsonl(path, Trajectory), params.rewards)
    work = partial(reward_shard, layout.root, params, total)
    shards = shards_of(stream_jsonl(path, Trajectory), params.shard_size)
    environment = environment_in(layout.root, params)
    with RewardTotals(environment) as totals:
        write_jsonl(layout.rewards(round), _counted(fan_out().map(work, shards), totals, path))
        numbers = totals.metrics
        bins = totals.histogram(sum(weights_of(environment, params.rewards).values()))
    write_text(layout.reward_histogram(round), histogram_csv(bins))
    for remark in remarks(numbers):
        logger.warning("round %d: %s", round, remark)
    write_json(layout.metrics("reward", round), numbers)


def _counted(shards: Iterable[RewardedShard], totals: RewardTotals, path: Path) -> Iterator[Reward]:
    """All rewards. Raises GraftError after the last one if too many failed."""
    for shard in shards:
        totals.failures.add_failure(shard.failure)
        for rewarded in shard.rewarded:
            totals.add(rewarded)
            yield from rewarded.rewards
    totals.failures.check(str(path), FAILED_LIMIT)
