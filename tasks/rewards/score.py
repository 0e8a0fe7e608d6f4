"""Rewards: the weighted sum of the terms, for each member of each group."""

from collections.abc import Mapping, Sequence

from tasks.environments.environment import Environment
from tasks.errors import GraftError
from tasks.params import Rewards
from tasks.records import RewardedTrajectory, RewardStatus, Trajectory
from tasks.rewards.terms import results_of, terms_of, weights_of
from tasks.workflows.judge import why_lost


def score(environment: Environment, trajectory: Trajectory, params: Rewards, max_new_tokens: int) -> RewardedTrajectory:
    """The trajectory with its rewards [G], their terms {name: [G]} and their status [G].

    A term of weight 0 is left out. A reward with a term that cannot be computed is None and `failed`: it leaves the
    group's baseline. (`timeout` is for terms that wait for something; none of the present ones does.)
    """
    members = range(len(trajectory.workflow_ids))
    known = terms_of(environment, max_new_tokens)
    weights = weights_of(environment, params)
    terms = {name: [known[name](trajectory, member) for member in members] for name in weights}
    rewards = [combine({name: terms[name][member] for name in terms}, weights) for member in members]
    status: list[RewardStatus] = ["failed" if reward is None else "ok" for reward in rewards]
    return RewardedTrajectory(**dict(trajectory), rewards=rewards, reward_terms=terms, reward_status=status)


def combine(terms: Mapping[str, float | None], weights: Mapping[str, float]) -> float | None:
    """Σ weight × term; None where a term is None."""
    total = 0.0
    for name, weight in weights.items():
        term = terms[name]
        if term is None:
            return None
        total += weight * term
    return total


def check_failures(name: str, trajectories: Sequence[RewardedTrajectory], limit: float) -> None:
    """Raise GraftError where more than `limit` (a share) of the rewards failed; `name` is the file they are from."""
    failed = [
        (trajectory, member)
        for trajectory in trajectories
        for member, status in enumerate(trajectory.reward_status)
        if status != "ok"
    ]
    share = failed_share(trajectories)
    if share > limit:
        trajectory, member = failed[0]
        why = why_lost(results_of(trajectory, member)) or "a term of its reward failed"
        raise GraftError(
            f"{name}: {len(failed)} rewards ({share:.0%}) could not be computed, rewards.failed_limit is {limit:.0%}; "
            f"workflow {trajectory.workflow_ids[member]} of problem {trajectory.problem_id}, for instance: {why}; "
            "mend that (graft doctor looks at sandbox and disk), then run the search stage again with --force"
        )


def failed_share(trajectories: Sequence[RewardedTrajectory]) -> float:
    """Share of all rewards that failed."""
    status = [status for trajectory in trajectories for status in trajectory.reward_status]
    return sum(one != "ok" for one in status) / max(len(status), 1)
