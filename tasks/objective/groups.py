"""Groups of completions with their advantages, as influence measures them and the update learns from them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tasks.environments.protocol import Environment
from tasks.layout import Layout
from tasks.model.policy import Policy, is_truncated
from tasks.model.sample import Sample
from tasks.objective.advantages import advantages_of, scale_negatives
from tasks.objective.recorded_completions import read_valid_trajectories
from tasks.objective.samples import baseline_rewards, tokenize_trajectory
from tasks.params.fields import Truncated
from tasks.params.update import Update
from tasks.records import Engine, Proposer, RewardedTrajectory, Split


@dataclass(frozen=True)
class SampleGroup:
    """One problem with its G completions; the lists are parallel."""

    problem_id: str
    samples: list[Sample]  # with the advantages that the update learns from, update.negative_weight included
    advantages: list[float]  # before update.negative_weight
    rewards: list[float | None]  # None = failed
    baseline_rewards: list[float | None]  # None = failed, or left out by `update.truncated`
    workflow_ids: list[str]
    proposers: list[Proposer]
    truncated: list[bool]  # cut at its length limit


class RoundGroups(NamedTuple):
    """The groups of a round by split, and the server that sampled them; None: Graft itself."""

    by_split: dict[Split, list[SampleGroup]]
    engine: Engine | None


def read_groups(
    policy: Policy, environment: Environment, layout: Layout, round: int, splits: Sequence[Split], update: Update
) -> RoundGroups:
    """The round's rewarded trajectories of these splits; the batch of an advantage is its split.

    Raises GraftError that names file and line, see `read_valid_trajectories`.
    """
    groups: dict[Split, list[SampleGroup]] = {split: [] for split in splits}
    engine = None
    for trajectory in read_valid_trajectories(policy, environment, layout, round, splits):
        groups[trajectory.split].append(_tokenized(policy, trajectory, update.truncated))
        engine = trajectory.engine
    by_split = {split: _with_advantages(members, update) for split, members in groups.items()}
    return RoundGroups(by_split, engine)


def sample_groups(policy: Policy, trajectories: Iterable[RewardedTrajectory], update: Update) -> list[SampleGroup]:
    """A group for each trajectory, all of whose completions are valid; together they are the batch."""
    return _with_advantages([_tokenized(policy, trajectory, update.truncated) for trajectory in trajectories], update)


def samples_in(groups: Iterable[SampleGroup]) -> list[Sample]:
    """The samples of all groups in one list."""
    return [sample for group in groups for sample in group.samples]


def _tokenized(policy: Policy, trajectory: RewardedTrajectory, truncated: Truncated) -> SampleGroup:
    """The group without advantages, which may depend on all groups."""
    return SampleGroup(
        problem_id=trajectory.problem_id,
        samples=tokenize_trajectory(policy, trajectory, [0.0] * len(trajectory.workflow_ids)),
        advantages=[],
        rewards=trajectory.rewards,
        baseline_rewards=baseline_rewards(policy, trajectory, truncated),
        workflow_ids=trajectory.workflow_ids,
        proposers=trajectory.proposers,
        truncated=[is_truncated(policy, tokens) for tokens in trajectory.tokens],
    )


def _with_advantages(groups: Sequence[SampleGroup], update: Update) -> list[SampleGroup]:
    found = []
    advantages = advantages_of(update.advantages, [group.baseline_rewards for group in groups])
    for group, own in zip(groups, advantages, strict=True):
        pairs = zip(group.samples, scale_negatives(own, update.negative_weight), strict=True)
        found.append(replace(group, advantages=own, samples=[replace(s, advantage=a) for s, a in pairs]))
    return found
