"""Completions of the round's validation problems: samples of the round's policy, on which influence is measured."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from tasks.artifacts import atomic_folder, read_jsonl, write_jsonl
from tasks.core.sharding import fan_out, shards_of
from tasks.environments.lookup import environment_in
from tasks.environments.runner import make_runner
from tasks.layout import REWARDS, Layout
from tasks.model.policy import LOAD_LOCK, ServedModel
from tasks.model.rollouts.operator_model import log_usage, operator_model
from tasks.model.sampling.vllm.serve import load_sampled_policy, serve_policy
from tasks.params.params import Params
from tasks.programs.answer_check import FAILED_LIMIT
from tasks.records.problems import Problem
from tasks.reward.compute import RewardedShard
from tasks.reward.weighted_sum import Failures
from tasks.rollout import Setting, roll_out_split
from tasks.search.draw import draw_problems
from tasks.search.policy_search import SplitProblem
from tasks.search.tally import Tally, show_tally
from tasks.trajectories import RewardedTrajectory


def write_validation(layout: Layout, round: int, rewarded: Sequence[RewardedTrajectory]) -> None:
    """Write the folder `validation` of the round: trajectories and rewards."""
    with atomic_folder(layout.validation(round)) as folder:
        write_jsonl(folder / layout.trajectories(round, "validation").name, [trajectory for trajectory, _ in rewarded])
        write_jsonl(folder / REWARDS, [reward for _, rewards in rewarded for reward in rewards])


def sample_validation(layout: Layout, params: Params, round: int, first: int, last: int) -> list[RewardedTrajectory]:
    """`influence.completions` samples, with rewards, of each problem that the round draws, from first up to last.

    Shards are sampled as those of the stage `search` are, by its runner or its server. Raises GraftError where more
    rewards failed than the stage `reward` allows.
    """
    listed = read_jsonl(layout.problems("validation"), Problem)
    problems = draw_problems(listed, params.influence.n, params.seed, "validation", round)[first:last]
    if not problems:
        return []
    tally = Tally({problem.problem_id: params.influence.completions for _, problem in problems})
    stage_id, failures = f"select@{round}", Failures()
    sampled = list[RewardedTrajectory]()
    with (
        serve_policy(layout, params.vllm, layout.policy(round - 1), stage_id) as served,
        show_tally(tally, stage_id, Console(stderr=True)),
    ):
        work = partial(sample_shard, layout.root, params, round, served)
        for shard in fan_out().map(work, shards_of(problems, params.shard_size)):
            failures.add_failure(shard.failure)
            for rewarded in shard.rewarded:
                failures.add(rewarded)
                sampled.append(rewarded)
    failures.check(f"{stage_id}: validation", FAILED_LIMIT)
    return sampled


def sample_shard(
    root: Path, params: Params, round: int, served: ServedModel | None, problems: Sequence[SplitProblem]
) -> RewardedShard:
    """`roll_out_split` with the policy of the project's folder `root`; `served`: the server that samples it."""
    layout, environment = Layout(root), environment_in(root, params)
    with LOAD_LOCK:
        policy = load_sampled_policy(layout.policy(round - 1), served)
    operators = operator_model(policy, params.operators, layout)
    with make_runner(environment, params.sandbox, operators) as runner:
        sampled = roll_out_split(Setting(root, params, environment, runner), policy, problems, round)
    log_usage(operators, layout, f"select@{round}")
    return sampled
