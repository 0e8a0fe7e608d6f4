"""One run of `benchmarks.selection`: rounds in memory with the rewards of a condition and the selection of a variant.

Runs of one seed differ only in what they select.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

from benchmarks.influence_selection.conditions import Condition, rewards_of, trusted_rewards, with_rewards
from benchmarks.influence_selection.equal_quantities import with_equal_quantities
from benchmarks.influence_selection.oracle import select_helpful
from benchmarks.influence_selection.variants import VARIANTS, Variant
from benchmarks.support import short_runs
from benchmarks.support.short_runs import Figures
from tasks.artifacts import read_jsonl
from tasks.environments.word_problems.problem_writer import WordProblemParams
from tasks.layout import Layout
from tasks.model.policy import load_policy
from tasks.params.params import Params
from tasks.programs.answer_check import number_of
from tasks.records.problems import Problem, Sibling
from tasks.rollout import roll_out
from tasks.round import learn
from tasks.round_start import HeldModels
from tasks.search.policy_search import SplitProblem
from tasks.select.select_samples import select_samples
from tasks.trajectories import RewardedTrajectory, Trajectory
from tasks.update.compute import update_round

ROUNDS = 2

SPLITS = ("train", "validation")

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

REVISION, AUDIT_REVISION, SELECTED_REVISION = 3, 4, 5
"""Raised with each change of code or of a shipped param after which a run gives something else; the last two are those
of audited runs, whose audits say in no round, or in most, that rewards err."""


@dataclass(frozen=True)
class TrainingRun:
    """One run."""

    root: Path  # where the workspaces of the seeds are
    seed: int
    condition: Condition
    name: str

    @property
    def variant(self) -> Variant:
        """What the run selects."""
        return VARIANTS[self.name]

    @property
    def start(self) -> tuple[str, ...]:
        """The params of the workspace."""
        return (*SETTINGS, f"seed={self.seed}")

    @property
    def assignments(self) -> tuple[str, ...]:
        """What differs from the shipped params."""
        return (*self.start, *GRPO, *self.variant.assignments)

    @property
    def folder(self) -> Path:
        """A workspace with problems and a first policy."""
        return short_runs.start_folder(self.root, self.start)

    @property
    def labels(self) -> dict[str, object]:
        """What it is, in words."""
        return {"condition": self.condition, "variant": self.name, "seed": self.seed}

    @property
    def digest(self) -> str:
        """The name of the run in the results; the same in all conditions where none of their rewards is read."""
        rule, condition = self.variant.rule, str(self.condition)
        if rule == "trusted_alone" or (rule == "majority" and condition != "answer_only"):  # which has its own problems
            condition = ""
        revision = REVISION
        if rule == "audit":
            revision = SELECTED_REVISION if condition in ("flipped", "biased") else AUDIT_REVISION
        return short_runs.digest(self.assignments, revision, condition, rule, ROUNDS)

    def run(self) -> Figures:
        """Train from the workspace's first policy.

        `final`: trusted pass@1 on test problems; `kept`: the mean share of the training samples with a signal; `err`:
        rounds whose audit says that rewards err; `seconds`: of the rounds, in processor time.
        """
        import torch

        torch.set_num_threads(1)
        params, layout = short_runs.params_of(self.assignments), Layout(self.folder)
        policy = load_policy(layout.policy(0))
        models = HeldModels(policy, None)
        kept, steps, err = list[float](), 0, 0.0
        with short_runs.setting_of(self.folder, params) as setting:
            started = time.process_time()
            for round in range(1, ROUNDS + 1):
                searched = roll_out(setting, policy, self._problems(params, round), round)
                trusted = {trajectory.problem_id: trusted_rewards(trajectory) for trajectory, _ in searched}
                select = partial(select_helpful, trusted) if self.variant.rule == "oracle" else select_samples
                rewarded = self._rewarded(searched, round)
                train, held_out = ([own for own in rewarded if own.trajectory.split == split] for split in SPLITS)
                learnt = learn(params, models, train, short_runs.sampler_of(held_out), round, update_round, select)
                signals = [line for line in learnt.selection.lines if line.split == "train" and line.advantage > 0]
                kept.append(fmean(line.selected for line in signals) if signals else 0.0)
                steps += len(learnt.update.result.rows)
                err += learnt.selection.metrics.get("audit_err", 0)
            seconds = time.process_time() - started
            tested = short_runs.params_of([*self.assignments, f"influence.completions={TEST_SAMPLES}"])
            test: list[SplitProblem] = [("validation", p) for p in read_jsonl(layout.problems("test"), Problem)[:TEST]]
            final = fmean(
                reward
                for trajectory, _ in roll_out(setting._replace(params=tested), policy, test, 0)
                for reward in trusted_rewards(trajectory)
            )
        return {"final": final, "kept": fmean(kept), "err": err, "steps": steps, "seconds": seconds}

    def _problems(self, params: Params, round: int) -> list[SplitProblem]:
        """A random sample of the training problems, and the validation problems that the variant trusts."""
        validation = read_jsonl(Layout(self.folder).problems("validation"), Problem) if self.variant.held_out else []
        if self.variant.rule == "trusted_alone":
            return [("train", problem) for _, problem in short_runs.draw_problems(params, [], validation, round)]
        train = training_problems(self.folder, params, self.condition)
        drawn = short_runs.draw_problems(params, train, validation, round)
        if self.condition == "answer_only":
            return [(split, asked_as_it_is(p, round) if split == "train" else p) for split, p in drawn]
        return drawn

    def _rewarded(self, searched: Sequence[RewardedTrajectory], round: int) -> list[RewardedTrajectory]:
        """The completions with the rewards of the condition, or with those that the variant trusts instead."""
        return [with_rewards(rewarded, self._rewards(rewarded.trajectory, round)) for rewarded in searched]

    def _rewards(self, trajectory: Trajectory, round: int) -> list[float]:
        held_out = trajectory.split == "validation" and self.condition != "clean"
        if held_out or self.variant.rule == "trusted_alone":
            return trusted_rewards(trajectory)
        if self.variant.rule == "majority":
            return majority_rewards(trajectory)
        return rewards_of(self.condition, trajectory, self.seed, round)


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


def majority_rewards(trajectory: Trajectory) -> list[float]:
    """1 for the members with the group's most frequent answer, the first of equally frequent ones; 0 without an answer.

    No reward is read (TTRL, Zuo et al. 2025, arXiv 2504.16084).
    """
    answers = [number_of(member.result) for member in trajectory.members]
    ranked = Counter(answer for answer in answers if answer is not None).most_common(1)
    return [float(bool(ranked) and answer == ranked[0][0]) for answer in answers]
