"""One run of `benchmarks.selection`: rounds of rollouts, rewards under a condition, a selection, an update.

Runs of one seed differ only in what they select.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from benchmarks.influence_selection.variants import PROBLEMS, STEPS, Variant
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
from tasks.influence.conformal_control import calibration_influences, shift_by_threshold
from tasks.influence.loss_gradients import Validation
from tasks.influence.selection import select
from tasks.influence.tracin import cache_validation_gradients, influences
from tasks.model.sample import Sample
from tasks.objective.samples import merge_equal_samples
from tasks.objective.token_weights import TokenWeights
from tasks.records import Problem
from tasks.seeds import derive_seed

if TYPE_CHECKING:
    from tasks.grpo.step_plan import Step
    from tasks.model.policy import Policy
    from tasks.model.scoring.scorer import Scorer
    from tasks.params.sections import Grpo

TEST, TEST_SAMPLES = 100, 8
LEARNING_RATE = 1e-3
BY_TOKEN = TokenWeights("dapo", longest=1)


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


def run(job: Job) -> RunResult:
    """Train from the workspace's first policy."""
    import time

    import torch

    from tasks.layout import Layout
    from tasks.model.policy import load_policy

    torch.set_num_threads(1)
    world, policy = world_of(job.folder), load_policy(Layout(job.folder).policy(0))
    learned = RunResult()
    started = time.process_time()
    for round in range(job.rounds):
        _round(world, policy, job, round, learned)
    learned.seconds = time.process_time() - started
    test = world.problems["test"][:TEST]
    learned.final = fmean(r.trusted for group in world.rollouts(policy, test, TEST_SAMPLES, "test") for r in group)
    return learned


def _round(world: World, policy: "Policy", job: Job, round: int, learned: RunResult) -> None:
    from tasks.model.scoring.scorer import scorer_for

    count, group = job.variant.training(job.problems)
    if job.condition == "answer_only":
        problems = sample_problems(world.equal_quantities, count, job.seed, round)
    else:
        problems = rotate_problems(sample_problems(world.problems["train"], count, job.seed, round), round)
    groups = world.rollouts(policy, problems, group, "train", job.seed, round)
    learned.curve.append(fmean(r.trusted for group in groups for r in group))
    rewards = rewards_of(job.condition, problems, groups, job.seed, round)
    given = samples_of(policy, problems, groups, rewards)
    samples, shares = [successes(s) for s in given], [abs(s.advantage) for s in given]
    judges: list[Sample] = []
    if job.variant.judges:
        judges = validation_of(world, policy, job.variant.judges, job.seed, round)
    scorer = scorer_for(policy, [*samples, *judges], 1.0, world.params.grpo.micro_batch_tokens)
    truth = samples_of(policy, problems, groups, trusted_of(groups))
    weights = _weights(job, round, scorer, samples, shares, judges, truth)
    given = [successes(s) for s in judges] if job.variant.rule == "validation_itself" else samples
    kept = [replace(s, advantage=weight * s.advantage) for s, weight in zip(given, weights, strict=True) if weight]
    signal = sum(s.advantage != 0 for s in samples)
    share = len(kept) / max(signal, 1)
    learned.kept.append(share)
    if job.variant.mixed:
        kept += [successes(s) for s in judges if s.advantage > 0]
    learned.steps += _update(world, scorer, kept, share, job, round)


def validation_of(world: World, policy: "Policy", count: int, seed: int, round: int) -> list[Sample]:
    """Fresh validation completions: equally many per problem, or one each of so many problems."""
    problems = rotate_problems(sample_problems(world.problems["validation"], count, seed, round), round)
    heard = world.rollouts(policy, problems, max(count // len(problems), 1), "validation", seed, round)
    return samples_of(policy, problems, heard, trusted_of(heard))


def samples_of(
    policy: "Policy",
    problems: Sequence[Problem],
    groups: Sequence[Sequence[Rollout]],
    rewards: Sequence[Sequence[float]],
) -> list[Sample]:
    """With advantages relative to the group."""
    from tasks.model.policy import chat_prompt, encode_prompt
    from tasks.objective.advantages import advantages_of
    from tasks.programs.contract import prompt_of

    samples = []
    for problem, group, gains in zip(problems, groups, advantages_of("group", rewards), strict=True):
        prompt = tuple(encode_prompt(policy, chat_prompt(policy, prompt_of(problem.question, policy.base))))
        for member, (rollout, gain) in enumerate(zip(group, gains, strict=True)):
            tokens, logprobs = tuple(rollout.completion.tokens), tuple(rollout.completion.logprobs)
            samples.append(Sample(problem.problem_id, member, prompt, tokens, logprobs, gain))
    return samples


def successes(sample: Sample) -> Sample:
    """As shipped (`grpo.negative_weight` 0): with failures at full weight, this policy unlearns in a few rounds."""
    return replace(sample, advantage=max(sample.advantage, 0.0))


def _weights(
    job: Job,
    round: int,
    scorer: "Scorer",
    samples: Sequence[Sample],
    shares: Sequence[float],
    judges: Sequence[Sample],
    truth: Sequence[Sample],
) -> list[float]:
    """Weight of each sample; 0: not trained on."""
    rule, advantages = job.variant.rule, [s.advantage for s in samples]
    if rule == "validation_itself":
        return [float(s.advantage > 0) for s in judges]
    if rule == "all":
        return select("none", advantages, [None] * len(samples))
    if rule == "truly_helpful":
        return [float(s.advantage * t.advantage > 0) for s, t in zip(samples, truth, strict=True)]
    found = compute_influences(scorer, samples, shares, judges, job.variant)
    positive = select("positive", advantages, found)
    if rule in ("positive", "reweight"):
        return select(rule, advantages, found)
    if rule == "negative":
        return [float(i < 0) for i in found]
    fraction = max(sum(positive), 1) / max(sum(a != 0 for a in advantages), 1)
    lots = [derive_seed("random", job.seed, round, s.problem_id, s.member) for s in samples]
    return select("random" if rule == "random" else "bottom_fraction", advantages, found, fraction, lots=lots)


def compute_influences(
    scorer: "Scorer",
    samples: Sequence[Sample],
    shares: Sequence[float],
    judges: Sequence[Sample],
    variant: Variant,
) -> list[float]:
    """Influence of each sample; with control counted from the fault line, and above 0 where there is none."""
    own = [successes(s) for s in judges or samples]
    validation = Validation(own, [s.advantage for s in judges or samples], BY_TOKEN, same_batch=not judges)
    held = (
        cache_validation_gradients(scorer, validation, variant.measure.budget)
        if variant.similarity == "local"
        else None
    )
    found = influences(scorer, samples, BY_TOKEN, validation, variant.measure, shares, cached=held).each
    if not variant.control:
        return [s.influence or 0.0 for s in found]
    given = [abs(s.advantage) for s in judges]
    trusted = calibration_influences(scorer, BY_TOKEN, validation, variant.measure, given, samples, held)
    return shift_by_threshold(samples, found, own, trusted, variant.measure) or [1.0] * len(samples)


EPOCHS = 4
"""Passes over a round's samples."""


def _update(world: World, scorer: "Scorer", kept: Sequence[Sample], share: float, job: Job, round: int) -> int:
    """Steps taken."""
    from tasks.grpo.recorded_logprobs import behaviour_logprobs
    from tasks.grpo.update import optimizer_step, start_training

    if not kept:
        return 0
    steps = math.ceil(STEPS * job.problems / PROBLEMS)
    steps = max(1, math.ceil(steps * share)) if job.by_kept else steps
    params = grpo_params(world.params.grpo)
    training = start_training(scorer.model, params, steps * EPOCHS)
    behaviour = behaviour_logprobs(scorer, kept)
    for epoch in range(EPOCHS):
        for step in steps_of(kept, steps, derive_seed("order", job.seed, round, epoch)):
            optimizer_step(training, scorer, step, behaviour, None, params)
    return len(training.rows)


def grpo_params(shipped: "Grpo") -> "Grpo":
    """GRPO as published, at a constant rate."""
    plain = {"beta": 0.0, "entropy": 0.0, "loss": "dapo", "schedule": "constant", "warmup_steps": 0}
    return shipped.model_copy(update=plain | {"learning_rate": LEARNING_RATE})


def steps_of(kept: Sequence[Sample], count: int, seed: int) -> "list[Step]":
    """The samples in `count` random steps of similar size, none empty."""
    from tasks.grpo.step_plan import Step, UpdateGroup

    order = sorted(kept, key=lambda s: derive_seed(seed, s.problem_id, s.member))
    count = min(count, len(order))
    chunks = [order[n * len(order) // count : (n + 1) * len(order) // count] for n in range(count)]
    steps = []
    for chunk in chunks:
        groups: list[UpdateGroup] = []
        for name in dict.fromkeys(s.problem_id for s in chunk):
            own = [replace(s, count=1) for s in chunk if s.problem_id == name]
            groups.append(UpdateGroup(name, merge_equal_samples(own), sum(len(s.completion) for s in own)))
        steps.append(Step(1, groups))
    return steps
