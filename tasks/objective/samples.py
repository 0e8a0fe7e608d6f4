"""Samples: the (prompt, completion, advantage) rows of influence and of the update.

A policy with low entropy writes the same completion many times. Equal rows have equal gradients, so they are computed
once and counted: exact, and a third of the work late in a run.
"""

from collections.abc import Sequence
from dataclasses import replace

from tasks.model.policy import Policy
from tasks.model.sample import Sample, TokenTargets
from tasks.model.text import count_before_stop, encode_completion
from tasks.trajectories import Trajectory


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
