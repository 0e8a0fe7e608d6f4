"""The cells of the tables of benchmarks.interactions: complete rounds of the stages in one process, on chess endings.

Every cell of a seed has the same problems and starts from the same policy, which are computed once. Its rounds are
those of `graft retrain`: search, collect, reward, select and update, each the stage itself, and at the end the last
policy does the test problems as in the stage `evaluate`.
"""

import shutil
import time
from importlib import import_module
from pathlib import Path

from benchmarks.support.workspace import PROJECT
from flows.cli.presets import preset
from flows.stages.chain import ROUND
from flows.stages.dvc_yaml import MODULES
from tasks.artifacts import read_jsonl
from tasks.core.metrics_files import read_metrics
from tasks.environments.measures import PREFIX
from tasks.evaluation.measure import evaluate_problems
from tasks.layout import Layout
from tasks.params.file import overridden
from tasks.params.params import Params
from tasks.records import Problem

SMALLER = (
    "rookworld.tasks=[P]",
    "rewards.environment={best: 0.5, candidates: 0.3, evaluations: 0.2, format: 0.0, content: 0.0}",
    "problems.train=96",
    "problems.test=200",
    "problems.siblings=1",
    "rounds=2",
    "bootstrap.demonstrations=6000",
    "grpo.prompts_per_step=12",
    "evaluation.samples=8",
)
"""What makes the preset `chess` take seconds: its easier task alone, two rounds of 16 steps on fresh positions."""

FIGURES = ("p_legal/sampled", "p_best_move/sampled", "p_legal/greedy", "p_best_move/greedy")

Figures = dict[str, float]


def params_of(seed: int, cell: str) -> Params:
    """The params of a cell."""
    path = PROJECT / "params.yaml"
    return overridden(path, path.read_text(encoding="utf-8"), assignments_of(seed, cell))[1]


def assignments_of(seed: int, cell: str) -> list[str]:
    """What differs from the shipped params; `cell` is the assignments of its two params."""
    return [*preset("chess"), *SMALLER, f"seed={seed}", *cell.split()]


def make_start(folder: Path, params: Params) -> None:
    """Problems and the first policy of a seed, unless they are there."""
    if folder.exists():
        return
    new = folder.with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)
    for stage in ("problems", "coldstart", "bootstrap"):
        import_module(MODULES[stage]).run(Layout(new), params, None)
    new.rename(folder)


def figures_of_start(folder: Path, params: Params) -> Figures:
    """The figures of the first policy."""
    return _evaluated(Layout(folder), params, 0)


def compute_cell(start: Path, folder: Path, params: Params) -> Figures:
    """The figures of a cell, and what its rounds were like: `kl` of the last update, `reward` of the last round.

    `seconds` are of CPU.
    """
    begun = time.process_time()
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(start, folder)
    layout, last = Layout(folder), params.rounds.last
    for round in range(1, last + 1):
        for stage in ROUND:
            import_module(MODULES[stage]).run(layout, params, round)
    found = _evaluated(layout, params, last)
    found["kl"] = read_metrics(layout, f"update@{last}")["kl"]
    found["reward"] = read_metrics(layout, f"reward@{last}")["epoch/mean_reward"]
    shutil.rmtree(folder)
    return found | {"seconds": time.process_time() - begun}


def _evaluated(layout: Layout, params: Params, round: int) -> Figures:
    problems = read_jsonl(layout.problems("test"), Problem)
    numbers = evaluate_problems(layout, params, layout.policy(round), problems, "interactions")[2]
    return {name: numbers[f"{PREFIX}{name}"] for name in FIGURES}
