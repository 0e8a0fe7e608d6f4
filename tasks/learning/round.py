"""Learning from a round's completions over values in memory: select → update.

With rollout.py it is a round, and gives what the stages write, which compute the same parts from files.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from tasks.model.policy import Policy
from tasks.objective.groups import SampleGroup, groups_by_split
from tasks.objective.token_weights import TokenWeights
from tasks.params.params import Params
from tasks.ppo.critic import criticise, score_splits
from tasks.ppo.losses import with_ppo_objective
from tasks.select.reward_audit import audit_in_steps
from tasks.select.select_samples import Selection, select_samples
from tasks.trajectories import RewardedTrajectory
from tasks.update.compute import UpdateResult, reference_scores, update_policy
from tasks.update.groups import selected_groups


class Round(NamedTuple):
    """What a round has learned from its completions."""

    selection: Selection
    update: UpdateResult


Select = Callable[[Policy, Sequence[SampleGroup], Sequence[SampleGroup], Params, int, Any], Selection]
"""A function with the arguments of `select_samples`."""


def learn(
    params: Params,
    policy: Policy,
    reference: Policy | None,
    rewarded: Sequence[RewardedTrajectory],
    round: int,
    value_head: Any = None,
    select: Select | None = None,
) -> Round:
    """Train the policy in place on what `roll_out` gave, and with algorithm ppo the value head.

    `reference`: None where `update.beta` is 0. Rewards are compared with those of the validation problems, on which
    influence is measured, too. `select`: by default `select_samples`.
    """
    params, recorded = with_ppo_objective(params), None
    splits = list(dict.fromkeys(trajectory.split for trajectory, _ in rewarded))
    groups = groups_by_split(policy, rewarded, splits, params.update)
    if value_head is not None:
        scores = score_splits(reference, groups, params) if reference else None
        critic = criticise(policy, value_head, groups, scores, params)
        groups, recorded = critic.groups, critic.reference
    if select is None:
        audit = None
        if params.influence.selection == "audit":
            train, held_out = ([r for r in rewarded if r.trajectory.split == name] for name in ("train", "validation"))
            audit, count = audit_in_steps(lambda: train, lambda first: held_out[:first], params.influence.n)
            groups["validation"] = groups.get("validation", [])[:count]
        select = partial(select_samples, audit=audit)
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
