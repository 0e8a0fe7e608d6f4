"""One run of `benchmarks.selection`: rounds of rollouts, rewards under a condition, a selection, an update.

Runs of one seed differ only in what they select.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from benchmarks.influence_selection.reward_corrections import (
    Vote,
    corrected,
    flip_rates,
    majority_rewards,
    refined_rewards,
    vote_of,
)
from benchmarks.influence_selection.variants import PROBLEMS, STEPS, Variant
from benchmarks.influence_selection.weights import RoundSamples, kept_by, successes
from benchmarks.influence_selection.world import (
    Condition,
    Rollout,
    World,
    rewards_of,
    rotate_problems,
    sample_problems,
    trusted_of,
    world_of,
)
from tasks.model.sample import Sample
from tasks.objective.samples import merge_equal_samples
from tasks.params.fields import Baseline
from tasks.records import Problem
from tasks.seeds import derive_seed

if TYPE_CHECKING:
    from tasks.model.policy import Policy
    from tasks.model.scoring.scorer import Scorer
    from tasks.params.update import Update
    from tasks.update.step_plan import Step

TEST, TEST_SAMPLES = 100, 8
LEARNING_RATE = 1e-3
EPOCHS = 4
"""Passes over a round's samples."""


@dataclass(frozen=True)
class Job:
    """One run."""

    folder: Path  # a workspace with problems and a first policy
    seed: int
    condition: Condition
    name: str
    variant: Variant
    rounds: int
    problems: int = PROBLEMS  # the size of a round: see Variant.training
    by_kept: bool = False  # fewer steps where fewer training samples are kept; else as many


@dataclass
class RunResult:
    """Metrics of a run."""

    final: float = 0.0  # trusted pass@1 on test problems
    curve: list[float] = field(default_factory=list)  # of each round's rollouts, before its update
    steps: int = 0
    kept: list[float] = field(default_factory=list)
    seconds: float = 0.0  # of the rounds, in processor time, without the final test


@dataclass(frozen=True)
class Rollouts:
    """Problems with their completions."""

    problems: list[Problem]
    groups: list[list[Rollout]]

    @property
    def trusted(self) -> list[float]:
        """The trusted reward of each completion."""
        return [reward for group in trusted_of(self.groups) for reward in group]


def run(job: Job) -> RunResult:
    """Train from the workspace's first policy."""
    import time

    import torch

    from tasks.layout import Layout
    from tasks.model.policy import load_policy

    torch.set_num_threads(1)
    world, policy = world_of(job.folder), load_policy(Layout(job.folder).policy(0))
    learned, votes = RunResult(), defaultdict[str, list[Vote]](list)
    started = time.process_time()
    for round in range(job.rounds if job.variant.rule != "untrained" else 0):
        _round(world, policy, job, round, learned, votes)
    learned.seconds = time.process_time() - started
    test = world.problems["test"][:TEST]
    learned.final = fmean(r.trusted for group in world.rollouts(policy, test, TEST_SAMPLES, "test") for r in group)
    return learned


def _round(
    world: World, policy: "Policy", job: Job, round: int, learned: RunResult, votes: dict[str, list[Vote]]
) -> None:
    from tasks.model.scoring.scorer import scorer_for

    training = training_of(world, policy, job, round)
    held_out = validation_of(world, policy, job.variant.trusted or 0, job.seed, round)
    learned.curve.append(fmean((training if training.problems else held_out).trusted))
    given = RoundSamples(
        _training_samples(policy, job, round, training, held_out, votes),
        samples_of(policy, training, trusted_of(training.groups)),
        samples_of(policy, held_out, trusted_of(held_out.groups)),
    )
    scorer = scorer_for(policy, [*given.training, *given.trusted], 1.0, world.params.update.micro_batch_tokens)
    chosen = kept_by(job.variant, scorer, given, job.seed, round) if given.training else []
    kept = [s for s, learned_from in zip(given.learnable, chosen, strict=True) if learned_from]
    share = len(kept) / max(sum(s.advantage != 0 for s in given.learnable), 1)
    learned.kept.append(share)
    if job.variant.mixed or job.variant.rule == "trusted_alone":
        kept += [successes(s) for s in given.trusted if s.advantage > 0]
    learned.steps += _update(world, scorer, kept, share, job, round)


def training_problems(world: World, condition: Condition, count: int, seed: int, round: int) -> list[Problem]:
    """A random sample of the problems that are trained on under a condition."""
    if condition == "answer_only":
        return sample_problems(world.equal_quantities, count, seed, round)
    return rotate_problems(sample_problems(world.problems["train"], count, seed, round), round)


def training_of(world: World, policy: "Policy", job: Job, round: int) -> Rollouts:
    """The training problems of a round with completions of the present policy."""
    count, group = job.variant.training(job.problems)
    problems = training_problems(world, job.condition, count, job.seed, 0 if job.variant.repeated else round)
    return Rollouts(problems, world.rollouts(policy, problems, group, "train", job.seed, round))


def validation_of(world: World, policy: "Policy", count: int, seed: int, round: int) -> Rollouts:
    """Fresh validation completions: equally many per problem, or one each of `count` problems."""
    problems = rotate_problems(sample_problems(world.problems["validation"], count, seed, round), round)
    each = max(count // max(len(problems), 1), 1)
    return Rollouts(problems, world.rollouts(policy, problems, each, "validation", seed, round))


def _training_samples(
    policy: "Policy",
    job: Job,
    round: int,
    training: Rollouts,
    held_out: Rollouts,
    votes: dict[str, list[Vote]],
) -> list[Sample]:
    """With advantages from the rewards of the condition, or from what the variant makes of them.

    `votes` of earlier rounds, by problem, are extended by those of this one.
    """
    if job.variant.rule == "majority":
        return samples_of(policy, training, majority_rewards(training.groups))
    rewards = rewards_of(job.condition, training.problems, training.groups, job.seed, round)
    if job.variant.rule == "olr":
        for problem, group in zip(training.problems, training.groups, strict=True):
            votes[problem.problem_id].append(vote_of(group))
        if round >= math.ceil(job.rounds / 2):  # not in the first half of the passes, as its authors do
            own = [votes[problem.problem_id] for problem in training.problems]
            rewards = refined_rewards(rewards, training.groups, own)
    if job.variant.rule != "noise_corrected":
        return samples_of(policy, training, rewards)
    erring = rewards_of(job.condition, held_out.problems, held_out.groups, job.seed, round)
    rates = flip_rates([reward for group in erring for reward in group], held_out.trusted)
    return samples_of(policy, training, corrected(rewards, rates), "none")


def samples_of(
    policy: "Policy", rollouts: Rollouts, rewards: Sequence[Sequence[float]], rule: Baseline = "group"
) -> list[Sample]:
    """With advantages relative to the group."""
    from tasks.model.policy import chat_prompt, encode_prompt
    from tasks.objective.advantages import advantages_of
    from tasks.programs.contract import prompt_of

    samples = []
    gained = advantages_of(rule, rewards)
    for problem, group, gains in zip(rollouts.problems, rollouts.groups, gained, strict=True):
        prompt = tuple(encode_prompt(policy, chat_prompt(policy, prompt_of(problem.question, policy.base))))
        for member, (rollout, gain) in enumerate(zip(group, gains, strict=True)):
            tokens, logprobs = tuple(rollout.completion.tokens), tuple(rollout.completion.logprobs)
            samples.append(Sample(problem.problem_id, member, prompt, tokens, logprobs, gain))
    return samples


def _update(world: World, scorer: "Scorer", kept: Sequence[Sample], share: float, job: Job, round: int) -> int:
    """Steps taken."""
    from tasks.objective.recorded_logprobs import behaviour_logprobs
    from tasks.update.update import optimizer_step, start_training

    if not kept:
        return 0
    steps = math.ceil(STEPS * job.problems / PROBLEMS)
    steps = max(1, math.ceil(steps * share)) if job.by_kept else steps
    params = grpo_params(world.params.update)
    training = start_training(scorer.model, params, steps * EPOCHS)
    behaviour = behaviour_logprobs(scorer, kept)
    for epoch in range(EPOCHS):
        for step in steps_of(kept, steps, derive_seed("order", job.seed, round, epoch)):
            optimizer_step(training, scorer, step, behaviour, None, params)
    return len(training.rows)


def grpo_params(shipped: "Update") -> "Update":
    """GRPO as published, at a constant rate."""
    plain = {"beta": 0.0, "entropy": 0.0, "loss": "dapo", "schedule": "constant", "warmup_steps": 0}
    return shipped.model_copy(update=plain | {"learning_rate": LEARNING_RATE})


def steps_of(kept: Sequence[Sample], count: int, seed: int) -> "list[Step]":
    """The samples in `count` steps of whole problems, nearly equally many in each; fewer if there are fewer problems.

    As in the update of a run: all kept samples of a problem are in one step, which computes its prompt once and equal
    completions once.
    """
    from tasks.update.step_plan import Step, UpdateGroup

    groups: dict[str, list[Sample]] = {}
    for sample in kept:
        groups.setdefault(sample.problem_id, []).append(replace(sample, count=1))
    order = sorted(groups, key=lambda name: derive_seed(seed, name))
    count = min(count, len(order))
    steps = []
    for n in range(count):
        names = order[n * len(order) // count : (n + 1) * len(order) // count]
        own = {name: groups[name] for name in names}
        updated = [UpdateGroup(k, merge_equal_samples(s), sum(len(x.completion) for x in s)) for k, s in own.items()]
        steps.append(Step(1, updated))
    return steps
