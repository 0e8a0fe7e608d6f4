"""Rewards as weighted sums of terms, and the count of failed ones."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tasks.environments.protocol import Environment
from tasks.errors import GraftError
from tasks.params.sections import Rewards
from tasks.programs.answer_check import failure_reason
from tasks.programs.efficiency import Budget
from tasks.reward.builtin_terms import COMMON, terms_of
from tasks.trajectories import Member, Reward, RewardedTrajectory, RewardStatus, Trajectory


class TermValue(NamedTuple):
    """Value of a term for one completion; None with status and error if it failed."""

    value: float | None
    status: RewardStatus = "ok"
    error: str | None = None


TermColumn = Sequence[TermValue]
"""Values of a term for each member of a group [G]."""


def reward_group(
    environment: Environment,
    trajectory: Trajectory,
    params: Rewards,
    budget: Budget,
    measured: Mapping[str, TermColumn],
) -> RewardedTrajectory:
    """The trajectory with its rewards [G].

    `measured` {name: [G]} holds the terms that are not built in. Terms of weight 0 are left out. A reward with a failed
    term is None with status `failed` or `timeout`, and is excluded from the group's baseline.
    """
    weights = weights_of(environment, params)
    columns = dict(measured)
    for name, term in terms_of(environment, budget).items():
        if name in weights:
            values = [term(trajectory.problem, member) for member in trajectory.members]
            columns[name] = [TermValue(value, "failed" if value is None else "ok") for value in values]
    rewards = []
    for place, member in enumerate(trajectory.members):
        terms = {name: columns[name][place].value for name in weights}
        rewards.append(
            Reward(
                problem_id=trajectory.problem_id,
                split=trajectory.split,
                member=place,
                workflow_id=member.workflow_id,
                reward=combine(terms, weights),
                terms=terms,
                status=next((s for name in weights if (s := columns[name][place].status) != "ok"), "ok"),
            )
        )
    return RewardedTrajectory(trajectory, rewards)


def weights_of(environment: Environment, params: Rewards) -> dict[str, float]:
    """The weights above 0 by term: built-in, the environment's, then the user's.

    Raises GraftError for a weight of efficiency where there are no programs, and for a user's term with the name of one
    of the environment's.
    """
    weights = {name: getattr(params, name) for name in COMMON}
    if not environment.asks_siblings and weights["efficiency"]:
        raise GraftError("rewards.efficiency: counts what programs do, and this environment has none; set it to 0")
    weights |= environment.weights
    for term in params.own:
        if term.name in environment.terms:
            raise GraftError(f"rewards.own: {term.name!r} is the name of a term of the environment; choose another")
        weights[term.name] = term.weight
    return {name: weight for name, weight in weights.items() if weight > 0}


def combine(terms: Mapping[str, float | None], weights: Mapping[str, float]) -> float | None:
    """Σ weight × term; None if a term is None."""
    total = 0.0
    for name, weight in weights.items():
        term = terms[name]
        if term is None:
            return None
        total += weight * term
    return total


def first_failure(rewarded: Sequence[RewardedTrajectory], measured: Mapping[str, Sequence[TermColumn]]) -> str | None:
    """The first failed reward with cause and remedy; None if none failed.

    `measured` {name: [P, G]} holds the errors of the terms that are not built in.
    """
    for place, (trajectory, rewards) in enumerate(rewarded):
        for member, reward in zip(trajectory.members, rewards, strict=True):
            if reward.status != "ok":
                errors = {name: columns[place][reward.member].error for name, columns in measured.items()}
                cause = _cause(member, errors)
                return f"workflow {member.workflow_id} of problem {trajectory.problem_id}, for instance: {cause}"
    return None


def first_term_error(measured: Mapping[str, Sequence[TermColumn]]) -> str | None:
    """`name: error` of the first failed term that is not built in {name: [P, G]}; None if none failed."""
    errors = ((name, term.error) for name, columns in measured.items() for column in columns for term in column)
    return next((f"{name}: {error}" for name, error in errors if error), None)


class Failures:
    """Count of failed rewards."""

    def __init__(self) -> None:
        self.rewards = 0
        self._first: str | None = None
        self._statuses: Counter[RewardStatus] = Counter()

    def add(self, rewarded: RewardedTrajectory) -> None:
        statuses = [reward.status for reward in rewarded.rewards]
        self.rewards += len(statuses)
        self._statuses.update(statuses)

    def add_failure(self, failure: str | None) -> None:
        """Keep the first failure of a shard, as returned by `first_failure`."""
        self._first = self._first or failure

    @property
    def failed(self) -> int:
        """Number of failed rewards, whatever their status."""
        return self.rewards - self._statuses["ok"]

    def share(self, status: RewardStatus | None = None) -> float:
        """Share of failed rewards among all, or of those with `status`."""
        return (self._statuses[status] if status else self.failed) / max(self.rewards, 1)

    def check(self, name: str, limit: float) -> None:
        """Raise GraftError if more than `limit` (a share) failed, or all; `name` is their file."""
        if self.share() > limit:
            raise GraftError(
                f"{name}: {self.failed} rewards ({self.share():.0%}) could not be computed, more than {limit:.0%}; "
                f"{self._first}"
            )
        if self.rewards and not self._statuses["ok"]:
            raise GraftError(f"{name}: no reward of a completion could be computed; {self._first}")


def _cause(member: Member, errors: Mapping[str, str | None]) -> str:
    """Cause and remedy of a failed reward; `errors` by term."""
    lost = failure_reason(member.results)
    if lost is not None:
        return f"{lost}; fix that (graft doctor checks sandbox and disk), then run the search stage again with --force"
    told = (f"{name}: {error}" for name, error in errors.items() if error)
    return f"{next(told, 'a term failed')}; fix that term, then run this stage again"
