"""One run of `benchmarks.selection`: rounds in memory with the rewards of a condition and the selection of a variant.

Runs of one seed differ only in what they select.
"""

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

from benchmarks.influence_selection.conditions import Condition, rewards_of, trusted_rewards, with_rewards
from benchmarks.influence_selection.equal_quantities import with_equal_quantities
from benchmarks.influence_selection.reward_corrections import (
    Vote,
    corrected,
    flip_rates,
    majority_rewards,
    refined_rewards,
    vote_of,
)
from benchmarks.influence_selection.rules import select_by
from benchmarks.influence_selection.variants import PROBLEMS, UNREWARDED, Variant
from benchmarks.support import short_runs
from benchmarks.support.short_runs import Figures
from tasks.artifacts import read_jsonl
from tasks.environments.word_problems.word_problems import WordProblemParams
from tasks.layout import Layout
from tasks.learning.rollout import roll_out
from tasks.learning.round import learn
from tasks.model.policy import load_policy
from tasks.params.params import Params
from tasks.programs.answer_check import number_of
from tasks.records import Problem, Sibling
from tasks.search.policy_search import SplitProblem
from tasks.trajectories import RewardedTrajectory

TEST, TEST_SAMPLES = 100, 8

SETTINGS = ("machine.tracking.uri=''", "problems.train=300", "environment.phrasings=1")
"""The problems of the first results: more of them, or other tellings, make another first policy, and other runs."""

GRPO = (
    "search.temperature=1.0",
    "update.beta=0.0",
    "update.entropy=0.0",
    "update.loss=dapo",
    "update.schedule=constant",
    "update.warmup_steps=0",
    "update.learning_rate=1e-3",
    "update.epochs=4",
)
"""GRPO as published, at a constant rate, but from successes alone (`update.negative_weight` 0, as shipped): with
failures at full weight, this policy unlearns in a few rounds."""

REVISION = 2
"""Raised with each change of code or of a shipped param after which a run gives something else."""

Votes = dict[str, list[Vote]]
"""Problem → the votes of its passes so far."""


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

    @property
    def assignments(self) -> list[str]:
        """What differs from the shipped params."""
        return [*SETTINGS, f"seed={self.seed}", *GRPO, *self.variant.assignments(self.problems)]

    @property
    def digest(self) -> str:
        """The name of the run in the results; the same in all conditions where none of their rewards is read."""
        condition: str = self.condition
        if self.variant.rule in UNREWARDED:
            other_problems = self.variant.rule == "majority" and condition == "answer_only"
            condition = condition if other_problems else ""
        size = (self.rounds, self.problems)
        return short_runs.digest(self.assignments, REVISION, condition, self.variant, *size)


def run(job: Job) -> Figures:
    """Train from the workspace's first policy.

    `final`: trusted pass@1 on test problems; `kept`: the mean share of the training samples with a signal; `seconds`:
    of the rounds, in processor time.
    """
    import torch

    torch.set_num_threads(1)
    params, layout = short_runs.params_of(job.assignments), Layout(job.folder)
    policy = load_policy(layout.policy(0))
    rounds = 0 if job.variant.rule == "untrained" else job.rounds
    kept, steps, votes = list[float](), 0, defaultdict[str, list[Vote]](list)
    with short_runs.setting_of(job.folder, params) as setting:
        started = time.process_time()
        for round in range(1, rounds + 1):
            searched = roll_out(setting, policy, problems_of(job, params, round), round)
            select = partial(select_by, job.variant.rule, {t.problem_id: trusted_rewards(t) for t, _ in searched})
            learnt = learn(params, policy, None, rewarded_by(job, searched, round, votes), round, select=select)
            signals = [line for line in learnt.selection.lines if line.split == "train" and line.advantage > 0]
            kept.append(fmean(line.selected for line in signals) if signals else 0.0)
            steps += len(learnt.update.rows)
        seconds = time.process_time() - started
        tested = short_runs.params_of([*job.assignments, f"influence.completions={TEST_SAMPLES}"])
        test: list[SplitProblem] = [("validation", p) for p in read_jsonl(layout.problems("test"), Problem)[:TEST]]
        final = fmean(
            reward
            for trajectory, _ in roll_out(setting._replace(params=tested), policy, test, 0)
            for reward in trusted_rewards(trajectory)
        )
    return {"final": final, "kept": fmean(kept or [0.0]), "steps": steps, "seconds": seconds}


def problems_of(job: Job, params: Params, round: int) -> list[SplitProblem]:
    """The problems of a round: a random sample of those of training, and the validation problems that it trusts."""
    trusted = job.variant.trusted
    validation = read_jsonl(Layout(job.folder).problems("validation"), Problem) if trusted else []
    if job.variant.rule == "trusted_alone":
        return [("train", problem) for _, problem in short_runs.draw_problems(params, [], validation, round)]
    train = training_problems(job.folder, params, job.condition)
    drawn = short_runs.draw_problems(params, train, validation, 1 if job.variant.repeated else round)
    if job.variant.repeated or job.condition == "answer_only":
        return [(split, asked_as_it_is(p, round) if split == "train" else p) for split, p in drawn]
    return drawn


def training_problems(folder: Path, params: Params, condition: Condition) -> list[Problem]:
    """The problems that are trained on under a condition."""
    problems = read_jsonl(Layout(folder).problems("train"), Problem)
    if condition != "answer_only":
        return problems
    phrasings = WordProblemParams(**params.environment.params).phrasings
    equal = [with_equal_quantities(problem, phrasings, params.seed) for problem in problems]
    return [problem for problem in equal if problem]


def asked_as_it_is(problem: Problem, round: int) -> Problem:
    """A form of the problem of which the round asks the problem's own question."""
    variants = [*problem.siblings]
    first = Sibling(question=problem.question, answer=problem.answer, fields=problem.fields)
    variants.insert(round % (len(variants) + 1), first)
    return problem.model_copy(update={**dict(variants[0]), "siblings": variants[1:]})


def rewarded_by(job: Job, searched: Sequence[RewardedTrajectory], round: int, votes: Votes) -> list[RewardedTrajectory]:
    """Training's completions with the rewards of the condition, or what the variant makes of them; validation's with
    trusted ones. `votes` are extended by those of this round."""
    rule, rates = job.variant.rule, (0.0, 0.0)
    if rule == "noise_corrected":
        held_out = [trajectory for trajectory, _ in searched if trajectory.split == "validation"]
        erring = [reward for t in held_out for reward in rewards_of(job.condition, t, job.seed, round)]
        rates = flip_rates(erring, [reward for t in held_out for reward in trusted_rewards(t)])
    changed = []
    for rewarded in searched:
        trajectory = rewarded.trajectory
        answers = [number_of(member.result) for member in trajectory.members]
        rewards = rewards_of(job.condition, trajectory, job.seed, round)
        if trajectory.split == "validation" or rule == "trusted_alone":
            rewards = trusted_rewards(trajectory)
        elif rule == "majority":
            rewards = majority_rewards(answers)
        elif rule == "noise_corrected":
            rewards = corrected(rewards, rates)
        elif rule == "olr":
            passes = votes[trajectory.problem_id]
            passes.append(vote_of(answers))
            if 2 * (round - 1) >= job.rounds:  # not in the first half of the passes, as its authors do
                rewards = refined_rewards(rewards, answers, passes)
        changed.append(with_rewards(rewarded, rewards))
    return changed
