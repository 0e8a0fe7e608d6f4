"""The completions of a round over values in memory: search → trajectories → rewards.

The stages `search`, `collect` and `reward` compute the same, each from the files of those before it; the stage `select`
samples validation with these functions.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tasks.collect.groups import build_trajectories, pair_with_workflows
from tasks.environments.protocol import Environment
from tasks.environments.runner import Runner
from tasks.model.policy import Policy
from tasks.params.params import Params
from tasks.programs.answer_check import FAILED_LIMIT
from tasks.reward.compute import RewardedShard, compute_rewards
from tasks.search.policy_search import PolicySearch, SplitProblem
from tasks.search.shard import search_problems
from tasks.trajectories import RewardedTrajectory


class Setting(NamedTuple):
    """What the completions of a round are run, checked and rewarded with."""

    root: Path  # the project's folder, which the params' modules and models are in
    params: Params
    environment: Environment
    runner: Runner
    failed_limit: float = FAILED_LIMIT  # share of the programs, and of the rewards, that may fail


def roll_out(
    setting: Setting, policy: Policy, problems: Sequence[SplitProblem], round: int
) -> list[RewardedTrajectory]:
    """Search the problems with the policy and reward the groups of completions, one split after the other."""
    parts = [[pair for pair in problems if pair[0] == split] for split in dict.fromkeys(split for split, _ in problems)]
    rolled_out = [roll_out_split(setting, policy, part, round) for part in parts]
    return [rewarded for shard in rolled_out for rewarded in shard.rewarded]


def roll_out_split(setting: Setting, policy: Policy, problems: Sequence[SplitProblem], round: int) -> RewardedShard:
    """`roll_out` of problems of one split: those of validation get `influence.completions` samples, and no tree."""
    root, params, environment, runner, failed_limit = setting
    if problems[0][0] == "validation":
        params = without_tree(params, params.influence.completions)
    search = PolicySearch(policy, environment, runner, params, round, failed_limit=failed_limit)
    searched = search_problems(search, problems)
    trajectories = list(
        build_trajectories(
            environment,
            pair_with_workflows(searched.asked, searched.workflows),
            policy.version,
            params.update.group_size,
            params.seed,
            policy.served.engine if policy.served else None,
        )
    )
    total = sum(len(trajectory.members) for trajectory in trajectories)
    return compute_rewards(root, params, environment, trajectories, total, failed_limit)


def without_tree(params: Params, count: int) -> Params:
    """Params to sample one group of `count` independent completions for each problem with."""
    no_tree = {"rule": "puct", "exploration": 0.0}  # a tree needs a rule, but nothing is chosen in it
    search = params.search.model_copy(update={"samples": count, "simulations": count, **no_tree})
    update = params.update.model_copy(update={"group_size": count})
    return params.model_copy(update={"search": search, "update": update})
