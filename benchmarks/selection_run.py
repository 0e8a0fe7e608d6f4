"""One run of `benchmarks.selection`: rounds of rollouts, rewards under a condition, a selection, an update.

    condition     training rewards                                                          validation
    clean         the share of problem and siblings solved                                  trusted
    flipped       1 where all are solved, else 0; 30 % of them inverted                     trusted
    answer_only   1 where the problem's own answer is right: spurious workflows have it too trusted
    biased        the share solved, and as much again for a long workflow, right or wrong   trusted

Trusted: 1 where problem and siblings are all solved. Everything is drawn by seeds of its own for each problem, round
and row, so that runs of one seed differ by what they select alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from tasks.influence.control import CHANCE, chance_of_more, dropped, trusted_influences
from tasks.influence.influence import Measure, influences
from tasks.influence.losses import Validation
from tasks.influence.selection import select
from tasks.params import Similarity
from tasks.policy.averaging import Averaging
from tasks.policy.samples import Sample, merged
from tasks.records import Completion, Problem
from tasks.seeds import derive_seed

if TYPE_CHECKING:
    from tasks.grpo.steps import Step
    from tasks.params import Grpo, Params
    from tasks.policy.base import Policy
    from tasks.policy.scorer import Scorer

Condition = Literal["clean", "flipped", "answer_only", "biased"]

PROBLEMS, GROUP = 64, 8  # of a round
FLIPPED = 0.3
LONG, BONUS = 24, 1.0  # tokens of a long workflow, few of which are right, and what the biased evaluator gives for it
TEST, TEST_SAMPLES = 100, 8
LEARNING_RATE = 1e-3
BY_TOKEN = Averaging("dapo", longest=1)


@dataclass(frozen=True)
class Variant:
    """What is learned from. `judges`: validation completions of a round; 0: the batch itself, None: no influence."""

    rule: Literal["all", "positive", "reweight", "negative", "random", "bottom", "truly_helpful", "validation_itself"]
    judges: int | None = None
    exclude_self: bool = True
    similarity: Similarity = "dot"
    adam: bool = False
    control: bool = False

    @property
    def measure(self) -> Measure:
        """How influence is measured."""
        steps_of_problems = PROBLEMS // STEPS if self.adam else None
        return Measure(self.exclude_self, similarity=self.similarity, adam=steps_of_problems)


CHOSEN = "held-out 1024, local, control"
VARIANTS: dict[str, Variant] = {
    "vanilla": Variant("all"),
    "same batch": Variant("positive", 0),
    "same batch, own vote": Variant("positive", 0, exclude_self=False),
    "same batch, cosine": Variant("positive", 0, similarity="cosine"),
    "held-out 128": Variant("positive", 128),
    "held-out 512": Variant("positive", 512),
    "held-out 512, local": Variant("positive", 512, similarity="local"),
    CHOSEN: Variant("positive", 1024, similarity="local", control=True),
    "oracle drop": Variant("truly_helpful"),
    "on the 512 themselves": Variant("validation_itself", 512),
}
CONTROLS: dict[str, Variant] = {
    "random, as many": Variant("random", 512, similarity="local"),
    "bottom, as many": Variant("bottom", 512, similarity="local"),
    "wrong sign": Variant("negative", 512, similarity="local"),
}
REMEDIES: dict[str, Variant] = {
    "held-out 512, adam": Variant("positive", 512, adam=True),
    "held-out 512, cosine": Variant("positive", 512, similarity="cosine"),
    "held-out 512, centred": Variant("positive", 512, similarity="centred"),
    "held-out 128, local, control": Variant("positive", 128, similarity="local", control=True),
    "held-out 512, local, control": Variant("positive", 512, similarity="local", control=True),
    "held-out 512, reweighted": Variant("reweight", 512, similarity="local"),
}
ALL = VARIANTS | CONTROLS | REMEDIES


@dataclass(frozen=True)
class Job:
    """One run."""

    folder: Path  # a workspace with problems and a first policy
    seed: int
    condition: Condition
    name: str
    variant: Variant
    rounds: int
    by_kept: bool = False  # fewer steps where fewer samples are kept, as many samples in each; else as many steps


@dataclass
class Learned:
    """What a run came to."""

    final: float = 0.0  # trusted pass@1 on test problems
    curve: list[float] = field(default_factory=list)  # of each round's rollouts, before its update
    steps: int = 0
    kept: list[float] = field(default_factory=list)
    seconds: float = 0.0  # of the rounds, in processor time, without the final test


@dataclass(frozen=True)
class Rollout:
    """A completion with what running it gave: its own answer right, and all siblings' too; the share of them all."""

    completion: Completion
    right: bool
    trusted: bool
    share: float


class World:
    """The problems of a workspace, and what was ever run on them."""

    def __init__(self, folder: Path) -> None:
        from tasks.artifacts import read_jsonl
        from tasks.layout import Layout
        from tasks.params import load_params
        from tasks.workflows.sandbox import Sandbox

        layout = Layout(folder)
        self.params: Params = load_params(folder / "params.yaml")
        self.problems = {
            "train": read_jsonl(layout.problems("train"), Problem),
            "validation": read_jsonl(layout.problems("validation"), Problem),
            "test": read_jsonl(layout.problems("test"), Problem),
        }
        limits = self.params.sandbox
        self._sandbox: Sandbox = Sandbox(limits.seconds, limits.memory_mb, limits.allow_weak, workers=1)
        self._sandbox.__enter__()
        self._known: dict[tuple[str, str], tuple[bool, bool, float]] = {}

    def rollouts(
        self, policy: "Policy", problems: Sequence[Problem], count: int, *seed: str | int
    ) -> list[list[Rollout]]:
        """`count` completions of each problem, run on it and its siblings."""
        from tasks.policy.base import decode, encode_prompt
        from tasks.policy.sampler import Request, sample
        from tasks.workflows.contract import prompt_of
        from tasks.workflows.fences import code_of
        from tasks.workflows.judge import is_right, solved_share
        from tasks.workflows.sandbox import Program

        requests = [
            Request(prompt, derive_seed(*seed, problem.problem_id, row))
            for problem in problems
            for prompt in [encode_prompt(policy, prompt_of(problem.question, policy.base))]
            for row in range(count)
        ]
        written = sample(policy, requests, 1.0, self.params.policy.max_new_tokens, "rollouts")
        owners = [problem for problem in problems for _ in range(count)]
        codes = [code_of(decode(policy, completion.tokens)) for completion in written]
        new = {
            (problem.question, code): problem
            for problem, code in zip(owners, codes, strict=True)
            if (problem.question, code) not in self._known
        }
        programs = [Program(code, problem.questions) for (_, code), problem in new.items()]
        for (key, problem), results in zip(new.items(), self._sandbox.run(programs), strict=True):
            share = solved_share(results, problem.answers)
            self._known[key] = (is_right(results[0], problem.answer), share == 1, share)
        rows = [
            Rollout(completion, *self._known[problem.question, code])
            for completion, problem, code in zip(written, owners, codes, strict=True)
        ]
        return [rows[start : start + count] for start in range(0, len(rows), count)]


@cache
def world_of(folder: Path) -> World:
    """One for each process: what was run is not run again."""
    return World(folder)


def run(job: Job) -> Learned:
    """Learn from the workspace's first policy."""
    import time

    import torch

    from tasks.layout import Layout
    from tasks.policy.base import load_policy

    torch.set_num_threads(1)
    world, policy = world_of(job.folder), load_policy(Layout(job.folder).policy(0))
    learned = Learned()
    started = time.process_time()
    for round in range(job.rounds):
        _round(world, policy, job, round, learned)
    learned.seconds = time.process_time() - started
    test = world.problems["test"][:TEST]
    learned.final = fmean(r.trusted for group in world.rollouts(policy, test, TEST_SAMPLES, "test") for r in group)
    return learned


def _round(world: World, policy: "Policy", job: Job, round: int, learned: Learned) -> None:
    from tasks.policy.scorer import scorer_of

    problems = drawn(world.problems["train"], PROBLEMS, job.seed, round)
    groups = world.rollouts(policy, problems, GROUP, "train", job.seed, round)
    learned.curve.append(fmean(r.trusted for group in groups for r in group))
    rewards = rewards_of(job.condition, problems, groups, job.seed, round)
    given = samples_of(policy, problems, groups, rewards)
    samples, shares = [successes(s) for s in given], [abs(s.advantage) for s in given]
    judges: list[Sample] = []
    if job.variant.judges:
        judges = validation_of(world, policy, job.variant.judges, job.seed, round)
    scorer = scorer_of(policy, [*samples, *judges], 1.0, world.params.grpo.micro_batch_tokens)
    truth = samples_of(policy, problems, groups, trusted_of(groups))
    weights = _weights(job, round, scorer, samples, shares, judges, truth)
    given = [successes(s) for s in judges] if job.variant.rule == "validation_itself" else samples
    kept = [replace(s, advantage=weight * s.advantage) for s, weight in zip(given, weights, strict=True) if weight]
    signal = sum(s.advantage != 0 for s in samples)
    learned.kept.append(len(kept) / max(signal, 1))
    learned.steps += _update(world, scorer, kept, signal, job, round)


def validation_of(world: World, policy: "Policy", count: int, seed: int, round: int) -> list[Sample]:
    """So many fresh completions, as many of each validation problem, or one of so many problems."""
    problems = drawn(world.problems["validation"], count, seed, round)
    heard = world.rollouts(policy, problems, max(count // len(problems), 1), "validation", seed, round)
    return samples_of(policy, problems, heard, trusted_of(heard))


def drawn(problems: Sequence[Problem], count: int, seed: int, round: int) -> list[Problem]:
    """So many of the problems, in the quantities of the round, by lot."""
    lots = sorted(problems, key=lambda problem: derive_seed("lot", seed, round, problem.problem_id))
    return [problem.turned(round) for problem in lots[:count]]


def trusted_of(groups: Sequence[Sequence[Rollout]]) -> list[list[float]]:
    return [[float(r.trusted) for r in group] for group in groups]


def rewards_of(
    condition: Condition, problems: Sequence[Problem], groups: Sequence[Sequence[Rollout]], seed: int, round: int
) -> list[list[float]]:
    """Training rewards [n][G]."""
    if condition == "clean":
        return [[r.share for r in group] for group in groups]
    if condition == "answer_only":
        return [[float(r.right) for r in group] for group in groups]
    if condition == "biased":
        return [[r.share + BONUS * (len(r.completion.tokens) >= LONG) for r in group] for group in groups]
    flips = [[is_flipped(problem, member, seed, round) for member in range(GROUP)] for problem in problems]
    return [
        [float(r.trusted != flip) for r, flip in zip(group, own, strict=True)]
        for group, own in zip(groups, flips, strict=True)
    ]


def is_flipped(problem: Problem, member: int, seed: int, round: int) -> bool:
    return derive_seed("flip", seed, round, problem.problem_id, member) % 1000 < 1000 * FLIPPED


def samples_of(
    policy: "Policy",
    problems: Sequence[Problem],
    groups: Sequence[Sequence[Rollout]],
    rewards: Sequence[Sequence[float]],
) -> list[Sample]:
    """With advantages relative to the group."""
    from tasks.policy.advantages import advantages_of
    from tasks.policy.base import encode_prompt
    from tasks.workflows.contract import prompt_of

    samples = []
    for problem, group, gains in zip(problems, groups, advantages_of("group", rewards), strict=True):
        prompt = tuple(encode_prompt(policy, prompt_of(problem.question, policy.base)))
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
    """What each sample weighs; 0 = not learned from."""
    rule, advantages = job.variant.rule, [s.advantage for s in samples]
    if rule == "validation_itself":
        return [float(s.advantage > 0) for s in judges]
    if rule == "all":
        return select("none", advantages, [None] * len(samples))
    if rule == "truly_helpful":
        return [float(s.advantage * t.advantage > 0) for s, t in zip(samples, truth, strict=True)]
    found = measured(scorer, samples, shares, judges, job.variant)
    positive = select("positive", advantages, found)
    if job.variant.control and nothing_to_drop(scorer, judges, dropped(samples, positive), job.variant):
        return select("none", advantages, found)
    if rule in ("positive", "reweight"):
        return select(rule, advantages, found)
    if rule == "negative":
        return [float(i < 0) for i in found]
    fraction = max(sum(positive), 1) / max(sum(a != 0 for a in advantages), 1)
    lots = [derive_seed("random", job.seed, round, s.problem_id, s.member) for s in samples]
    return select("random" if rule == "random" else "bottom_fraction", advantages, found, fraction, lots=lots)


def measured(
    scorer: "Scorer",
    samples: Sequence[Sample],
    shares: Sequence[float],
    judges: Sequence[Sample],
    variant: Variant,
) -> list[float]:
    """Influence of each sample."""
    validation = Validation(judges or samples, BY_TOKEN, same_batch=not judges)
    found = influences(scorer, samples, BY_TOKEN, validation, variant.measure, shares).each
    return [s.influence or 0.0 for s in found]


def nothing_to_drop(scorer: "Scorer", judges: Sequence[Sample], found: Sequence[float], variant: Variant) -> bool:
    """Whether as many of the validation completions would be dropped."""
    own, shares = [successes(s) for s in judges], [abs(s.advantage) for s in judges]
    validation = Validation(judges, BY_TOKEN)
    trusted = trusted_influences(scorer, own, BY_TOKEN, validation, variant.measure, shares)
    kept = select("positive", [s.advantage for s in own], trusted)
    return chance_of_more(found, dropped(own, kept)) >= CHANCE


def auc(folder: Path, seed: int, judges: int) -> float:
    """How well influence on so many validation samples tells flipped rewards from others: 0.5 is chance.

    At the workspace's first policy, among one round's samples that would be learned from.
    """
    import torch
    from scipy.stats import mannwhitneyu

    from tasks.layout import Layout
    from tasks.policy.base import load_policy
    from tasks.policy.scorer import scorer_of

    torch.set_num_threads(1)
    world, policy = world_of(folder), load_policy(Layout(folder).policy(0))
    problems = drawn(world.problems["train"], PROBLEMS, seed, 0)
    groups = world.rollouts(policy, problems, GROUP, "train", seed, 0)
    rewards = rewards_of("flipped", problems, groups, seed, 0)
    given = samples_of(policy, problems, groups, rewards)
    samples, shares = [successes(s) for s in given], [abs(s.advantage) for s in given]
    validation = validation_of(world, policy, judges, seed, 0)
    scorer = scorer_of(policy, [*samples, *validation], 1.0, world.params.grpo.micro_batch_tokens)
    found = measured(scorer, samples, shares, validation, Variant("positive", judges, similarity="local"))
    flips = [is_flipped(problem, member, seed, 0) for problem in problems for member in range(GROUP)]
    rows = [(i, flip) for i, s, flip in zip(found, samples, flips, strict=True) if s.advantage]
    flipped, others = [i for i, flip in rows if flip], [i for i, flip in rows if not flip]
    return float(mannwhitneyu(others, flipped).statistic) / (len(others) * len(flipped))


EPOCHS, STEPS = 4, 8
"""Passes over a round's samples, and steps of each: with `by_kept`, where all with a signal are learned from."""


def _update(world: World, scorer: "Scorer", kept: Sequence[Sample], signal: int, job: Job, round: int) -> int:
    """Steps taken."""
    from tasks.grpo.scores import behaviour_of
    from tasks.grpo.update import begin, take

    if not kept:
        return 0
    steps = max(1, math.ceil(STEPS * len(kept) / max(signal, 1))) if job.by_kept else STEPS
    params = grpo_params(world.params.grpo)
    training = begin(scorer.model, params, steps * EPOCHS)
    behaviour = behaviour_of(scorer, kept)
    for epoch in range(EPOCHS):
        for step in steps_of(kept, steps, derive_seed("order", job.seed, round, epoch)):
            take(training, scorer, step, behaviour, None, params)
    return len(training.rows)


def grpo_params(shipped: "Grpo") -> "Grpo":
    """GRPO as published, at a constant rate."""
    plain = {"beta": 0.0, "entropy": 0.0, "loss": "dapo", "schedule": "constant", "warmup_steps": 0}
    return shipped.model_copy(update=plain | {"learning_rate": LEARNING_RATE})


def steps_of(kept: Sequence[Sample], count: int, seed: int) -> "list[Step]":
    """The samples in `count` steps of like size, by lot; never an empty one."""
    from tasks.grpo.steps import Group, Step

    order = sorted(kept, key=lambda s: derive_seed(seed, s.problem_id, s.member))
    count = min(count, len(order))
    chunks = [order[n * len(order) // count : (n + 1) * len(order) // count] for n in range(count)]
    steps = []
    for chunk in chunks:
        groups: list[Group] = []
        for name in dict.fromkeys(s.problem_id for s in chunk):
            own = [replace(s, count=1) for s in chunk if s.problem_id == name]
            groups.append(Group(name, merged(own), sum(len(s.completion) for s in own)))
        steps.append(Step(1, groups))
    return steps
