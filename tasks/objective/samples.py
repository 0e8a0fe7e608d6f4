"""Samples: the (prompt, completion, advantage) rows of influence and of the update.

A policy with low entropy writes the same completion many times. Equal rows have equal gradients, so they are computed
once and counted: exact, and a third of the work late in a run.
"""

from collections.abc import Sequence
from dataclasses import replace

from tasks.model.policy import Policy, count_before_stop, encode_completion, encode_prompt, is_truncated
from tasks.model.sample import Sample, TokenTargets
from tasks.params.fields import Truncated
from tasks.records import RewardedTrajectory


def baseline_rewards(policy: Policy, trajectory: RewardedTrajectory, truncated: Truncated) -> list[float | None]:
    """The rewards [G] that advantages are made of: with `leave_out` a completion that was cut has None, as if it had
    failed."""
    if truncated == "learn":
        return trajectory.rewards
    pairs = zip(trajectory.rewards, trajectory.tokens, strict=True)
    return [None if is_truncated(policy, tokens) else reward for reward, tokens in pairs]


def merge_equal_samples(samples: Sequence[Sample]) -> list[Sample]:
    """One row for all that have problem, completion and advantages in common, in the order of their first members."""
    first: dict[tuple[str, tuple[int, ...], float, TokenTargets | None], Sample] = {}
    for sample in samples:
        key = (sample.problem_id, sample.completion, sample.advantage, sample.targets)
        present = first.get(key)
        first[key] = sample if present is None else replace(present, count=present.count + sample.count)
    return list(first.values())


def tokenize_trajectory(policy: Policy, trajectory: RewardedTrajectory, advantages: Sequence[float]) -> list[Sample]:
    """The G members of a trajectory, all of which fit (tasks/objective/recorded_completions.py), with the advantages
    [G]."""
    prompt = tuple(encode_prompt(policy, trajectory.prompt))
    samples = []
    for member, advantage in enumerate(advantages):
        tokens = trajectory.tokens[member] or encode_completion(policy, trajectory.workflow_codes[member])
        behaviour = trajectory.logprobs[member] if trajectory.tokens[member] else []
        learnt = count_before_stop(policy, tokens)
        samples.append(
            Sample(
                trajectory.problem_id,
                member,
                prompt,
                tuple(tokens[:learnt]),
                tuple(behaviour[:learnt]),
                advantage,
                kept=tuple(map(tuple, trajectory.kept[member][:learnt])) if trajectory.kept else (),
                temperature=trajectory.problem.temperature,
            )
        )
    return samples
