"""Groups of completions with their advantages, as influence measures them and the update learns from them.

A completion's part in both is a sample: prompt, completion and advantage. A policy with low entropy writes the same
completion many times. Equal samples have equal gradients, so they are computed once and counted: exact, and a third of
the work late in a run.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tasks.artifacts import read_json
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import Policy
from tasks.model.sample import Sample, TokenTargets
from tasks.model.text import count_before_stop, encode_completion, is_truncated
from tasks.objective.advantages import advantages_of, scale_negatives
from tasks.params.fields import Truncated
from tasks.params.sections import Update
from tasks.records.policy import Lineage
from tasks.records.problems import Split
from tasks.records.search import Engine, Proposer
from tasks.trajectories import RewardedTrajectory, Trajectory, read_numbered_rewarded


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
    engine: Engine | None = None  # the server that sampled it; None: Graft itself


WRITERS: dict[Split, tuple[str, ...]] = {"train": ("search", "collect", "reward"), "validation": ("select",)}
"""The stages that write the trajectories of a split with their rewards."""

GroupsBySplit = dict[Split, list[SampleGroup]]
"""Groups by split; each split is a batch of its own."""


def read_trajectories(layout: Layout, round: int, splits: Sequence[Split]) -> Iterator[RewardedTrajectory]:
    """The round's trajectories of these splits with their rewards, one at a time.

    Raises GraftError that names file and line where another policy wrote them than the one that the round starts from:
    their log-probabilities are not its own.
    """
    version = read_json(layout.policy(round - 1) / "lineage.json", Lineage).version
    for split in splits:
        path = layout.trajectories(round, split)
        for line, rewarded in read_numbered_rewarded(path):
            writer, stages = rewarded.trajectory.policy_version, WRITERS[split]
            if writer != version:
                raise GraftError(
                    f"{path}:{line}: policy_version: {writer!r} wrote this, but round {round} starts from {version!r}; "
                    f"run again: graft stage {' '.join(f'{stage}@{round}' for stage in stages)}"
                )
            yield rewarded


def groups_by_split(
    policy: Policy, rewarded: Iterable[RewardedTrajectory], splits: Sequence[Split], update: Update
) -> GroupsBySplit:
    """A group for each trajectory of these splits; the batch of an advantage is its split."""
    batches: GroupsBySplit = {split: [] for split in splits}
    for completions in rewarded:
        if completions.trajectory.split in batches:
            batches[completions.trajectory.split].append(_tokenized(policy, completions, update.truncated))
    for split, batch in batches.items():
        compared = advantages_of(update.advantages, [group.baseline_rewards for group in batch])
        for place, (group, advantages) in enumerate(zip(batch, compared, strict=True)):
            pairs = zip(group.samples, scale_negatives(advantages, update.negative_weight), strict=True)
            samples = [replace(s, advantage=a) for s, a in pairs]
            batches[split][place] = replace(group, advantages=advantages, samples=samples)
    return batches


def samples_in(groups: Iterable[SampleGroup]) -> list[Sample]:
    """The samples of all groups in one list."""
    return [sample for group in groups for sample in group.samples]


def merge_equal_samples(samples: Sequence[Sample]) -> list[Sample]:
    """One row for all that have problem, completion and advantages in common, in the order of their first members."""
    first: dict[tuple[str, tuple[int, ...], float, TokenTargets | None], Sample] = {}
    for sample in samples:
        key = (sample.problem_id, sample.completion, sample.advantage, sample.targets)
        present = first.get(key)
        first[key] = sample if present is None else replace(present, count=present.count + sample.count)
    return list(first.values())


def tokenize_trajectory(policy: Policy, trajectory: Trajectory) -> list[Sample]:
    """The G members of a trajectory, with advantage 0."""
    prompt = tuple(trajectory.prompt_tokens)
    samples = []
    for place, member in enumerate(trajectory.members):
        tokens = member.tokens or encode_completion(policy, member.code)
        # Log-probabilities belong to the tokens that were drawn: of code that is tokenized here there are none.
        behaviour = member.logprobs if member.tokens else []
        learnt = count_before_stop(policy, tokens)
        samples.append(
            Sample(
                trajectory.problem_id,
                place,
                prompt,
                tuple(tokens[:learnt]),
                tuple(behaviour[:learnt]),
                advantage=0.0,
                kept=tuple(map(tuple, member.kept[:learnt])),
                temperature=trajectory.problem.temperature,
            )
        )
    return samples


def _tokenized(policy: Policy, rewarded: RewardedTrajectory, rule: Truncated) -> SampleGroup:
    """The group without advantages, which may depend on all groups."""
    trajectory, rewards = rewarded[0], [reward.reward for reward in rewarded.rewards]
    truncated = [is_truncated(policy, member.tokens) for member in trajectory.members]
    cut = truncated if rule == "leave_out" else [False] * len(truncated)
    return SampleGroup(
        problem_id=trajectory.problem_id,
        samples=tokenize_trajectory(policy, trajectory),
        advantages=[],
        rewards=rewards,
        baseline_rewards=[None if left_out else reward for reward, left_out in zip(rewards, cut, strict=True)],
        workflow_ids=[member.workflow_id for member in trajectory.members],
        proposers=[member.proposer for member in trajectory.members],
        truncated=truncated,
        engine=trajectory.engine,
    )
