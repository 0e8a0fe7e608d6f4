"""Answers of the audit in rounds of a run as shipped, whose rewards are exact or of which a share is inverted.

A round is audited with SETS sets of validation problems, no two of which share one. They are sampled by the policy of
the round, as in the stage `select`. The policy learns from the round with the first set, and from exact rewards. For a
run whose rewards err, those of a share of the distinct completions of each problem are inverted after search and choice
of the group; each of the RUNS runs of a seed has its draws and its sets.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from benchmarks.support import short_runs
from benchmarks.support.short_runs import Figures
from tasks.artifacts import read_jsonl
from tasks.layout import Layout
from tasks.model.policy import load_policy
from tasks.records.problems import Problem
from tasks.rollout import roll_out
from tasks.round import learn
from tasks.round_start import HeldModels
from tasks.search.draw import draw_problems
from tasks.seeds import derive_seed
from tasks.select.reward_audit import audit_rewards
from tasks.update.compute import update_round
from tests.support.inverted_rewards import inverted

ROUNDS, SETS, RUNS = 2, 10, 4

HELD_OUT = 64
"""Validation problems of a set: `influence.n` as shipped."""

INVERTED = (10, 30)
"""Per cent of the rewards."""

REVISION = 2
"""Raised with each change of code or of a shipped param after which the rounds give something else."""


@dataclass(frozen=True)
class AuditedRounds:
    """The rounds of one seed."""

    root: Path  # where the workspaces of the seeds are
    seed: int

    @property
    def start(self) -> tuple[str, ...]:
        """What differs from the shipped params."""
        return ("machine.tracking.uri=''", f"problems.validation={SETS * HELD_OUT}", f"seed={self.seed}")

    @property
    def folder(self) -> Path:
        """A workspace with problems and a first policy."""
        return short_runs.start_folder(self.root, self.start)

    @property
    def labels(self) -> dict[str, object]:
        """What it is, in words."""
        return {"variant": "audited rounds", "seed": self.seed}

    @property
    def digest(self) -> str:
        """The name of the rounds in the results."""
        return short_runs.digest(self.start, REVISION, "audited rounds", ROUNDS, SETS, RUNS, INVERTED)

    def run(self) -> Figures:
        """Count the answers: those of exact rewards, SETS a round, and for each share inverted RUNS a round.

        `detected_…`: runs with an answer `err` in one of the rounds.
        """
        import torch

        torch.set_num_threads(1)
        params, layout = short_runs.params_of(self.start), Layout(self.folder)
        policy = load_policy(layout.policy(0))
        models = HeldModels(policy, load_policy(layout.policy(0)))
        train, validation = (read_jsonl(layout.problems(split), Problem) for split in ("train", "validation"))
        answers, detected = Counter[str](), {share: set[int]() for share in INVERTED}
        with short_runs.setting_of(self.folder, params) as setting:
            for round in range(1, ROUNDS + 1):
                drawn = draw_problems(train, params.search.problems, params.seed, "train", round)
                searched = roll_out(setting, policy, drawn, round)
                held_out = roll_out(setting, policy, [("validation", problem) for problem in validation], round)
                held_out.sort(key=lambda own: derive_seed("sets", self.seed, round, own.trajectory.problem_id))
                sets = [held_out[place::SETS] for place in range(SETS)]
                for trusted in sets:
                    answers[f"exact_{audit_rewards(searched, trusted).answer}"] += 1
                for share in INVERTED:
                    for run, trusted in enumerate(sets[:RUNS]):
                        erring = inverted(searched, share, self.seed, round, run)
                        answer = audit_rewards(erring, trusted).answer
                        answers[f"{share}_{answer}"] += 1
                        if answer == "err":
                            detected[share].add(run)
                if round < ROUNDS:
                    learn(params, models, searched, short_runs.sampler_of(sets[0]), round, update_round)
        counts = {"exact": ROUNDS * SETS, "runs": RUNS} | answers
        return {**counts, **{f"detected_{share}": len(runs) for share, runs in detected.items()}}
