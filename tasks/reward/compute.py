"""Rewards of trajectories from all terms: built-in, the environment's and the user's functions."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tasks.environments.lookup import environment_in
from tasks.environments.protocol import Environment, Term
from tasks.params.params import Params
from tasks.params.sections import Rewards, UserTerm
from tasks.programs.answer_check import FAILED_LIMIT
from tasks.programs.efficiency import Budget
from tasks.reward.term_number import number
from tasks.reward.user_terms import SECONDS, user_term_column
from tasks.reward.weighted_sum import (
    TermColumn,
    TermValue,
    first_failure,
    first_term_error,
    reward_group,
    weights_of,
)
from tasks.trajectories import RewardedTrajectory, Trajectory


class RewardedShard(NamedTuple):
    """Trajectories with rewards; `failure` describes the first failed one, `term_error` the first of a term."""

    rewarded: list[RewardedTrajectory]
    failure: str | None
    term_error: str | None = None


def reward_shard(root: Path, params: Params, total: int, trajectories: Sequence[Trajectory]) -> RewardedShard:
    """`compute_rewards` in the environment of `params`; of the project's folder `root` only the user's environment and
    terms are read."""
    return compute_rewards(root, params, environment_in(root, params), trajectories, total, FAILED_LIMIT)


def compute_rewards(
    root: Path,
    params: Params,
    environment: Environment,
    trajectories: Sequence[Trajectory],
    total: int,
    limit: float,
) -> RewardedShard:
    """The trajectories with their rewards; `total` is the number of completions of the round.

    Raises GraftError if a user's term cannot be loaded.
    """
    measured = measure_terms(root, environment, params.rewards, trajectories, total, limit)
    operators = params.operators
    budget = Budget(operators.calls, operators.max_tokens, operators.price)
    rewarded = []
    for place, trajectory in enumerate(trajectories):
        of_group = {name: columns[place] for name, columns in measured.items()}
        rewarded.append(reward_group(environment, trajectory, params.rewards, budget, of_group))
    return RewardedShard(rewarded, first_failure(rewarded, measured), first_term_error(measured))


def measure_terms(
    root: Path,
    environment: Environment,
    rewards: Rewards,
    trajectories: Sequence[Trajectory],
    total: int,
    limit: float,
) -> dict[str, list[TermColumn]]:
    """The terms that are not built in {name: [P, G]}."""
    weights = weights_of(environment, rewards)
    measured: dict[str, list[TermColumn]] = {
        name: [_column(term, trajectory) for trajectory in trajectories]
        for name, term in environment.terms.items()
        if name in weights
    }
    measured |= {
        term.name: user_term_column(root, term, trajectories, total, limit, SECONDS)
        for term in active_user_terms(rewards)
    }
    return measured


def count_completions(trajectories: Iterable[Trajectory], rewards: Rewards) -> int:
    """The number of completions, which a user's term needs; 0, and nothing is read, where there is none."""
    return sum(len(trajectory.members) for trajectory in trajectories) if active_user_terms(rewards) else 0


def active_user_terms(rewards: Rewards) -> list[UserTerm]:
    """The user's terms with a weight above 0."""
    return [term for term in rewards.own if term.weight > 0]


def _column(term: Term, trajectory: Trajectory) -> TermColumn:
    """A term of the environment, possibly the user's; one that raises or returns no number has failed."""
    column = []
    for member in trajectory.members:
        try:
            column.append(TermValue(number(term(trajectory.problem, member.code, member.results))))
        except Exception as error:  # noqa: BLE001 (a user's term may raise anything)
            column.append(TermValue(None, "failed", f"{type(error).__name__}: {error}"))
    return column
