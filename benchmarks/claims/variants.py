"""The runs of benchmarks.claims: two algorithms × variants of selection, in three tasks, all of a seed from one policy.

Validation completions are taken from those of training. Searches are independent samples, without a tree, because PPO
learns from nothing else.
"""

from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from benchmarks.support import short_runs
from benchmarks.support.short_runs import Figures
from flows.cli.presets import preset
from tasks.environments.measures import PREFIX

PROBLEMS, SAMPLES, ROUNDS = 128, 12, 3
COMPLETIONS = PROBLEMS * SAMPLES  # of a round

REVISION = 1  # raised with each change of code or of a shipped param after which a run gives something else

NONE, LARGER = "no selection", "no selection, 20 completions"
OWN_VOTE, SAME_BATCH = "same batch, own vote", "same batch"
FEW, SOME, MANY = "held out 16", "held out 128", "held out 1024"
BEST, TOP, BOTTOM = "held out 128, top 16 by reward", "upper half", "lower half"

_GROUP = ("search.samples", "search.simulations", "update.group_size")  # completions of a problem

_TRACIN = (
    *("influence.selection=positive", "influence.similarity=dot", "influence.fdr_control=false"),
    *("influence.train_on_validation=false", "influence.prompts=exact", "influence.loss=seqloss-lastadv"),
)
"""TracIn as the claims have it, without what Graft adds to it."""


def _held_out(problems: int, completions: int, *assignments: str) -> tuple[int, tuple[str, ...]]:
    sizes = ("influence.validation=held_out", f"influence.n={problems}", f"influence.completions={completions}")
    return problems * completions, (*_TRACIN, *sizes, *assignments)


VARIANTS: dict[str, tuple[int, tuple[str, ...]]] = {
    NONE: (0, ("influence.selection=none",)),
    LARGER: (0, ("influence.selection=none", *(f"{name}=20" for name in _GROUP))),
    OWN_VOTE: (0, (*_TRACIN, "influence.validation=same_batch", "influence.own_vote=true")),
    SAME_BATCH: (0, (*_TRACIN, "influence.validation=same_batch", "influence.own_vote=false")),
    FEW: _held_out(16, 1),
    SOME: _held_out(128, 1),
    MANY: _held_out(128, 8),
    BEST: _held_out(128, 1, "influence.sampling=highest", "influence.k=16"),
    TOP: _held_out(128, 1, "influence.selection=top", "influence.share=0.5"),
    BOTTOM: _held_out(128, 1, "influence.selection=bottom", "influence.share=0.5"),
}
"""Validation completions of a round, and assignments. LARGER takes at most the CPU seconds of OWN_VOTE, instead of as
many completions; the halves are by the influence of SOME."""

_SIZES = (
    *(f"{name}={SAMPLES}" for name in _GROUP),
    *(f"problems.train={PROBLEMS}", "problems.validation=128", f"rounds={ROUNDS}"),
    *("evaluation.samples=8", "evaluation.ks=[1, 4]", "machine.device=cpu"),
)
_RECIPE = (
    f"problems.siblings={ROUNDS - 1}",  # fresh questions in each round
    "policy.lora={rank: 16, alpha: 32, targets: all-linear}",  # influence is measured over an adapter
    "update.learning_rate=1e-3",
)
_CHESS = (
    "problems.test=200",
    'environment={name: "recipes.chess:RookWorld", notation: list, tasks: [P], demonstrations: 6000, '
    "weights: {best: 0.5, candidates: 0.3, evaluations: 0.2, format: 0.0, content: 0.0}}",
)

TASKS = {
    "civil": (-1, f"{PREFIX}toxicity/sampled", (*preset("civil"), *_SIZES, *_RECIPE, "problems.test=120")),
    "chess": (1, f"{PREFIX}p_legal/sampled", (*preset("chess"), *_SIZES, *_RECIPE, *_CHESS)),
    "workflow": (1, "sampled_mean", (*_SIZES, "environment.phrasings=1", "problems.test=100", "update.epochs=3")),
}
"""The metric of a policy, with the sign by which more is better, and assignments. Chess is measured by legal moves: a
best move is too rare in runs this short."""


class Run(NamedTuple):
    """One run; that of the first policy has neither an algorithm nor a variant."""

    task: str
    algorithm: str
    variant: str
    seed: int

    @property
    def start(self) -> list[str]:
        """What differs from the shipped params for the first policy."""
        return [*TASKS[self.task][2], f"seed={self.seed}"]

    @property
    def assignments(self) -> list[str]:
        """What differs from the shipped params."""
        if not self.variant:
            return self.start
        validation, own = VARIANTS[self.variant]
        problems = (COMPLETIONS - validation) // SAMPLES
        return [*self.start, f"algorithm={self.algorithm}", f"search.problems={problems}", *own]

    @property
    def digest(self) -> str:
        """The name of the run in a results file."""
        return short_runs.digest(self.assignments, REVISION, bool(self.variant))

    def compute(self, root: Path) -> Figures:
        """The figures of the run from the start in its folder.

        `score`: the more the better; `seconds`: of CPU, of the rounds; `selected_share`: mean of the rounds;
        `deviation_fall`: of the deviation of the rewards, from the first round to the last.
        """
        sign, metric, _ = TASKS[self.task]
        params, start = short_runs.params_of(self.assignments), short_runs.start_folder(root, self.start)
        if not self.variant:
            return {"score": sign * short_runs.evaluate(start, params)[metric]}
        policy, rounds, seconds = short_runs.compute_rounds(start, params)
        first, last = (rounds[place]["reward"]["epoch/reward_std"] for place in (0, -1))
        share = fmean(round["select"]["selected_share"] for round in rounds)
        score = sign * short_runs.evaluate(start, params, policy)[metric]
        return {"score": score, "seconds": seconds, "selected_share": share, "deviation_fall": first - last}
