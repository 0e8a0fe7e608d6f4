"""One round of learning over values in memory: search → trajectories → rewards → select → update.

The stages compute the same parts, each from the files of those before it, and the two functions give what they write.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tasks.collect.groups import build_trajectories, pair_with_workflows
from tasks.environments.protocol import Environment
from tasks.environments.runner import Runner
from tasks.model.policy import Policy
from tasks.objective.groups import SampleGroup, groups_by_split
from tasks.objective.token_weights import TokenWeights
from tasks.params.params import Params
from tasks.ppo.critic import criticise, score_splits
from tasks.ppo.losses import with_ppo_objective
from tasks.programs.answer_check import FAILED_LIMIT
from tasks.reward.compute import compute_rewards
from tasks.search.policy_search import PolicySearch, SplitProblem
from tasks.search.shard import search_problems
from tasks.select.select_samples import Selection, select_samples
from tasks.trajectories import RewardedTrajectory
from tasks.update.compute import UpdateResult, reference_scores, update_policy
from tasks.update.groups import selected_groups


class Setting(NamedTuple):
    """What the completions of a round are run, checked and rewarded with."""

    root: Path  # the project's folder, which the params' modules and models are in
    params: Params
    environment: Environment
    runner: Runner


class Round(NamedTuple):
    """What a round has learned from its completions."""

    selection: Selection
    update: UpdateResult


Select = Callable[[Policy, Sequence[SampleGroup], Sequence[SampleGroup], Params, int, Any], Selection]
"""A function with the arguments of `select_samples`."""


def roll_out(
    setting: Setting,
    policy: Policy,
    problems: Sequence[SplitProblem],
    round: int,
    failed_limit: float = FAILED_LIMIT,
) -> list[RewardedTrajectory]:
    """Search the problems with the policy and reward the groups of completions."""
    root, params, environment, runner = setting
    search = PolicySearch(policy, environment, runner, params, round, failed_limit=failed_limit)
    searched = search_problems(search, problems)
    trajectories = list(
        build_trajectories(
            environment,
            pair_with_workflows(searched.asked, searched.workflows),
            policy.version,
            params.update.group_size,
            params.seed,
        )
    )
    total = sum(len(trajectory.members) for trajectory in trajectories)
    return compute_rewards(root, params, environment, trajectories, total, failed_limit).rewarded


def learn(
    params: Params,
    policy: Policy,
    reference: Policy | None,
    rewarded: Sequence[RewardedTrajectory],
    round: int,
    value_head: Any = None,
    select: Select = select_samples,
) -> Round:
    """Train the policy in place on what `roll_out` gave, and with algorithm ppo the value head.

    `reference`: None where `update.beta` is 0. Influence is measured on the validation problems.
    """
    params, recorded = with_ppo_objective(params), None
    splits = list(dict.fromkeys(trajectory.split for trajectory, _ in rewarded))
    groups = groups_by_split(policy, rewarded, splits, params.update)
    if value_head is not None:
        scores = score_splits(reference, groups, params) if reference else {}
        critic = criticise(policy, value_head, groups, scores, params)
        groups, recorded = critic.groups, critic.all_reference
    selection = select(policy, groups["train"], groups.get("validation", []), params, round, value_head)
    learnt = {line.split for line in selection.lines}
    selected = selected_groups(
        [group for split, batch in groups.items() if split in learnt for group in batch],
        selection.lines,
        TokenWeights(params.update.loss, params.policy.max_new_tokens),
    )
    if value_head is None and reference:
        recorded = reference_scores(reference, selected, params)
    updated = update_policy(policy, selected, recorded, params, round, value_head=value_head)
    return Round(selection, updated)
