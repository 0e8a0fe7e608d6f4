"""All terms of the rewards of a round, those that others compute among them: environment, own functions, a model."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tasks.environments.lookup import environment_in
from tasks.environments.protocol import Environment, Term
from tasks.params.params import Params
from tasks.params.sections import OwnTerm, Rewards
from tasks.records import RewardedTrajectory, Trajectory
from tasks.rewards.builtin_terms import results_of
from tasks.rewards.user_terms import user_term_column
from tasks.rewards.weighted_sum import TermColumn, TermValue, first_failure, reward_group, weights_of
from tasks.sources.user_modules import check_unchanged, modules_of_terms


class RewardedShard(NamedTuple):
    """Some trajectories with their rewards; `failure` is the first one that failed, and why."""

    trajectories: list[RewardedTrajectory]
    failure: str | None


def reward_shard(root: Path, params: Params, total: int, trajectories: Sequence[Trajectory]) -> RewardedShard:
    """`compute_rewards` by the environment that `params` name, which reads nothing of the project's folder `root` but that
    environment, own terms and a model's folder."""
    return compute_rewards(root, params, environment_in(root, params, params.rewards.strict), trajectories, total)


def compute_rewards(
    root: Path, params: Params, environment: Environment, trajectories: Sequence[Trajectory], total: int
) -> RewardedShard:
    """The trajectories with their rewards; they hold so many of the `total` completions of a round.

    `root` is the project's folder. Raises GraftError where an own term or the model cannot be loaded, or is not the
    one that the params record.
    """
    measured = measure_terms(root, environment, params.rewards, trajectories, total)
    longest = params.policy.max_new_tokens
    rewarded = [
        reward_group(
            environment, each, params.rewards, longest, {name: column[place] for name, column in measured.items()}
        )
        for place, each in enumerate(trajectories)
    ]
    return RewardedShard(rewarded, first_failure(rewarded, measured))


def measure_terms(
    root: Path, environment: Environment, rewards: Rewards, trajectories: Sequence[Trajectory], total: int
) -> dict[str, list[TermColumn]]:
    """The terms that are not Graft's own {name: [P, G]}."""
    weights = weights_of(environment, rewards)
    measured: dict[str, list[TermColumn]] = {
        name: [_column(term, trajectory) for trajectory in trajectories]
        for name, term in environment.terms.items()
        if name in weights
    }
    _refuse_changed(root, rewards)
    measured |= {
        term.name: user_term_column(root, term, trajectories, rewards.seconds, rewards.failed_limit, total)
        for term in active_user_terms(rewards)
    }
    _refuse_changed(root, rewards)  # a process that was started anew has loaded the source anew
    if rewards.model is not None and rewards.model.weight > 0:
        from tasks.rewards.classifier_term import classifier_column

        measured["model"] = classifier_column(root, rewards.model, trajectories)
    return measured


def active_user_terms(rewards: Rewards) -> list[OwnTerm]:
    """Those of the user's own that count."""
    return [term for term in rewards.own if term.weight > 0]


def _column(term: Term, trajectory: Trajectory) -> TermColumn:
    """A term of the environment, which may be the user's own: where it raises or gives no number, it has failed."""
    column = []
    for member, text in enumerate(trajectory.workflow_codes):
        try:
            value = term(trajectory.problem, text, results_of(trajectory, member))
        except Exception as error:  # noqa: BLE001 (anything may come out of a term of somebody's own)
            column.append(TermValue(None, "failed", f"{type(error).__name__}: {error}"))
            continue
        known = value is not None and math.isfinite(value)
        column.append(TermValue(value) if known else TermValue(None, "failed", f"it returned {value}"))
    return column


def _refuse_changed(root: Path, rewards: Rewards) -> None:
    check_unchanged(root, modules_of_terms(rewards), rewards.own_sha256, "rewards.own_sha256")
