"""The runs of benchmarks.ppo: two algorithms × selections, in three environments, all of a seed from one policy.

A round has about COMPLETIONS completions in all, but for LARGER: those of validation are taken from training. Searches
are independent samples, without a tree, because PPO learns from nothing else.
"""

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from benchmarks.support import short_runs
from benchmarks.support.short_runs import Figures
from flows.cli.presets import preset
from tasks.environments.measures import PREFIX

PROBLEMS, SAMPLES, ROUNDS = 128, 12, 3
COMPLETIONS = PROBLEMS * SAMPLES

_SAMPLES = ("search.samples", "search.simulations", "update.group_size")
"""Params that are the number of completions of a problem."""

ALGORITHMS = ("grpo", "ppo")

REVISION = 1
"""Raised with each change of code or of a shipped param after which a run gives something else."""


@dataclass(frozen=True)
class Selection:
    """How samples are selected: assignments, and the validation completions of a round that they need."""

    assignments: tuple[str, ...]
    validation: int = 0

    @property
    def problems(self) -> int:
        """Train problems of a round."""
        return (COMPLETIONS - self.validation) // SAMPLES


_AS_CLAIMED = (
    "influence.similarity=dot",
    "influence.fdr_control=false",
    "influence.train_on_validation=false",
)
"""TracIn as the claims have it, without what Graft adds to it."""

NONE, SAME_BATCH = "no selection", "same batch"
FEW, SOME, MANY = "held out 16", "held out 128", "held out 1024"
LARGER = "no selection, 20 completions"
TOP, BOTTOM = "upper half", "lower half"


def _positive(*assignments: str, validation: int = 0) -> Selection:
    return Selection(("influence.selection=positive", *_AS_CLAIMED, *assignments), validation)


def _held_out(problems: int, completions: int, *assignments: str) -> Selection:
    sizes = (f"influence.n={problems}", f"influence.completions={completions}")
    return _positive("influence.validation=held_out", *sizes, *assignments, validation=problems * completions)


SELECTIONS: dict[str, Selection] = {
    NONE: Selection(("influence.selection=none",)),
    LARGER: Selection(("influence.selection=none", *(f"{name}=20" for name in _SAMPLES))),
    SAME_BATCH: _positive("influence.validation=same_batch"),
    FEW: _held_out(16, 1),
    SOME: _held_out(128, 1),
    MANY: _held_out(128, 8),
    TOP: _held_out(128, 1, "influence.selection=top_fraction", "influence.fraction=0.5"),
    BOTTOM: _held_out(128, 1, "influence.selection=bottom_fraction", "influence.fraction=0.5"),
}
"""LARGER takes about as many CPU seconds as SAME_BATCH, at most, instead of as many completions. The halves are by the
influence of SOME: the lower one is what a backward sign would select."""


@dataclass(frozen=True)
class Setting:
    """An environment with its params, and the metric that says how good a policy is."""

    assignments: tuple[str, ...]
    metric: str
    sign: int = 1  # -1: the lower the better


_SIZES = (
    f"problems.train={PROBLEMS}",
    "problems.validation=128",
    *(f"{name}={SAMPLES}" for name in _SAMPLES),
    f"rounds={ROUNDS}",
    "evaluation.samples=8",
    "evaluation.ks=[1, 4]",
)
_FROM_SCRATCH = (
    f"problems.siblings={ROUNDS - 1}",  # fresh questions in each round
    "policy.lora={rank: 16, alpha: 32, targets: all-linear}",  # influence is measured over an adapter
    "update.learning_rate=1e-3",
)


SETTINGS: dict[str, Setting] = {
    "workflow": Setting((*_SIZES, "environment.phrasings=1", "problems.test=100", "update.epochs=3"), "sampled_mean"),
    "chess": Setting(
        (
            *preset("chess"),
            *_SIZES,
            *_FROM_SCRATCH,
            "problems.test=200",
            'environment={name: "recipes.chess:RookWorld", notation: list, tasks: [P], demonstrations: 6000}',
            "rewards.environment={best: 0.5, candidates: 0.3, evaluations: 0.2, format: 0.0, content: 0.0}",
        ),
        f"{PREFIX}p_legal/sampled",
    ),
    "civil": Setting(
        (*preset("civil"), *_SIZES, *_FROM_SCRATCH, "problems.test=120"), f"{PREFIX}toxicity/sampled", sign=-1
    ),
}
"""Moves of chess are measured by their legality: a best move is too rare in runs this short."""

MORE = {"civil": (f"{PREFIX}distinct_texts/sampled",), "chess": (f"{PREFIX}p_best_move/sampled",)}
"""Other metrics that are kept."""

Cell = tuple[str, str, str, int]
"""Environment, algorithm, selection and seed; the first policy has no algorithm and no selection."""


def cells(environments: list[str], seeds: list[int]) -> list[Cell]:
    """All runs, seed by seed."""
    names = [("", ""), *((algorithm, selection) for algorithm in ALGORITHMS for selection in SELECTIONS)]
    return [(environment, *own, seed) for seed in seeds for environment in environments for own in names]


def assignments_of(cell: Cell) -> list[str]:
    """What differs from the shipped params."""
    environment, algorithm, name, seed = cell
    own = [*SETTINGS[environment].assignments, f"seed={seed}"]
    if not name:
        return own
    selection = SELECTIONS[name]
    return [*own, f"algorithm={algorithm}", f"search.problems={selection.problems}", *selection.assignments]


def digest(cell: Cell) -> str:
    """The name of a run in the results."""
    return short_runs.digest(assignments_of(cell), REVISION, bool(cell[2]))


def compute_cell(start: Path, cell: Cell) -> Figures:
    """The figures of a run: what the last policy is like, `seconds` of CPU, and what the rounds were like.

    `deviation_first` and `deviation_last`: of the rewards of a round. `selected_share`: mean of the rounds.
    """
    params = short_runs.params_of(assignments_of(cell))
    short_runs.make_start(start, short_runs.params_of(assignments_of((cell[0], "", "", cell[3]))))
    if not cell[2]:
        return _metrics_of(cell, short_runs.evaluate(start, params))
    run = short_runs.compute_rounds(start, params)
    rewards = [round["reward"]["epoch/reward_std"] for round in run.rounds]
    return _metrics_of(cell, short_runs.evaluate(start, params, run.policy)) | {
        "seconds": run.seconds,
        "deviation_first": rewards[0],
        "deviation_last": rewards[-1],
        "selected_share": fmean(round["select"]["selected_share"] for round in run.rounds),
    }


def _metrics_of(cell: Cell, numbers: Figures) -> Figures:
    return {name: numbers[name] for name in (SETTINGS[cell[0]].metric, *MORE.get(cell[0], ()))}
