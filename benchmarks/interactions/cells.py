"""The cells of the tables of benchmarks.interactions: short runs on chess endings, all of a seed from one policy."""

from pathlib import Path

from benchmarks.support import short_runs
from benchmarks.support.short_runs import Figures
from flows.cli.presets import preset
from tasks.environments.measures import PREFIX
from tasks.params.params import Params

SMALLER = (
    'environment={name: "recipes.chess:RookWorld", notation: list, tasks: [P], demonstrations: 6000}',
    "rewards.environment={best: 0.5, candidates: 0.3, evaluations: 0.2, format: 0.0, content: 0.0}",
    "problems.train=96",
    "problems.test=200",
    "problems.siblings=1",
    "rounds=2",
    "update.prompts_per_step=12",
    "evaluation.samples=8",
)
"""What makes the preset `chess` take seconds: its easier task alone, two rounds of 16 steps on fresh positions."""

FIGURES = ("p_legal/sampled", "p_best_move/sampled", "p_legal/greedy", "p_best_move/greedy")


def params_of(seed: int, cell: str) -> Params:
    """The params of a cell."""
    return short_runs.params_of(assignments_of(seed, cell))


def assignments_of(seed: int, cell: str) -> list[str]:
    """What differs from the shipped params; `cell` is the assignments of its two params."""
    return [*preset("chess"), *SMALLER, f"seed={seed}", *cell.split()]


def figures_of_start(start: Path, params: Params) -> Figures:
    """The figures of the first policy."""
    return _named(short_runs.evaluate(start, params))


def compute_cell(start: Path, params: Params) -> Figures:
    """The figures of a cell, and what its rounds were like: `kl` of the last update, `reward` of the last round.

    `seconds` are of CPU.
    """
    run = short_runs.compute_rounds(start, params)
    return _named(short_runs.evaluate(start, params, run.policy)) | {
        "kl": run.rounds[-1]["update"]["kl"],
        "reward": run.rounds[-1]["reward"]["epoch/mean_reward"],
        "seconds": run.seconds,
    }


def _named(numbers: Figures) -> Figures:
    return {name: numbers[f"{PREFIX}{name}"] for name in FIGURES}
