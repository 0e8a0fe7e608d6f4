"""Stage `collect`: the workflows of a search → trajectories, one group of completions per problem."""

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from tasks.artifacts import read_json, stream_jsonl, write_json, write_jsonl
from tasks.collect.groups import SearchedProblem, build_trajectories, pair_with_workflows
from tasks.collect.metrics import TrajectoryCounts
from tasks.core.sharding import fan_out, shards_of
from tasks.environments.lookup import environment_in
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.programs.workflow_files import integrity_error, mark_invalid, read_engine, workflow_location
from tasks.records.policy import Lineage
from tasks.records.search import AskedProblem, Engine, Workflow
from tasks.statistics.collapse import collapse_remarks
from tasks.trajectories import Trajectory

logger = logging.getLogger(__name__)


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Read the round's search and the policy's lineage, write `trajectories.jsonl`, one shard in memory at a time.

    A workflow whose code differs from what the search ran stays in its group with an error as result.
    """
    assert round is not None
    version = read_json(layout.policy(round - 1) / "lineage.json", Lineage).version
    shards = shards_of(_searched_problems(layout, round), params.shard_size)
    engine = read_engine(layout.workflows(round))
    collected = fan_out().map(partial(collect_shard, layout.root, params, version, engine), shards)
    counts = TrajectoryCounts(params.update.group_size)
    write_jsonl(layout.trajectories(round), _counted(collected, counts, layout, round))
    for remark in collapse_remarks(counts.metrics):
        logger.warning("round %d: %s", round, remark)
    write_json(layout.metrics("collect", round), counts.metrics)


def collect_shard(
    root: Path, params: Params, version: str, engine: Engine | None, searched: Sequence[SearchedProblem]
) -> list[Trajectory]:
    """The trajectories of some problems; of the project's folder `root` only the user's environment is read."""
    environment, size = environment_in(root, params), params.update.group_size
    return list(build_trajectories(environment, searched, version, size, params.seed, engine))


def _searched_problems(layout: Layout, round: int) -> Iterator[SearchedProblem]:
    """Each problem that has workflows, with these."""
    index = layout.workflows(round) / "index.jsonl"
    asked = stream_jsonl(layout.workflows(round) / "problems.jsonl", AskedProblem)
    for searched in pair_with_workflows(asked, stream_jsonl(index, Workflow)):
        for place, workflow in enumerate(searched.workflows):
            if fault := integrity_error(workflow):
                logger.warning(
                    "%s: %s; run graft stage search@%d again", workflow_location(workflow, index), fault, round
                )
                searched.workflows[place] = mark_invalid(workflow, fault)
        yield searched


def _counted(
    collected: Iterator[list[Trajectory]], counts: TrajectoryCounts, layout: Layout, round: int
) -> Iterator[Trajectory]:
    for shard in collected:
        for trajectory in shard:
            counts.add(trajectory)
            yield trajectory
    if not counts.trajectories:
        index = layout.workflows(round) / "index.jsonl"
        raise GraftError(f"{index}: no completions in it; run graft stage search@{round} again")
