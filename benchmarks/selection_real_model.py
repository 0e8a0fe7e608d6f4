"""Influence selection with a pretrained model whose training rewards err: the preset `medium` with and without it.

    python -m benchmarks.selection_real_model --seeds 0 1 2 --keep FOLDER

Training rewards are all or nothing and `flipped`, 30 % of them inverted, or by the problem's own answer alone
(`answers`). Those of the validation problems are exact, and so is what the test problems are measured by. `none` trains
on 12 completions of each of 32 problems, `positive` on 8 of each and on 8 of each of 16 validation problems: 384 a
round either way. `trusted` has as many completions with exact rewards as `positive` and no others: 8 of each of 16 of
the 32 problems, drawn by chance in each round, in as many steps.

With `--keep` the workspaces stay, and a benchmark that was ended goes on where it was. Needs `make smollm2`. The last
line of standard output is one JSON object with the means over the seeds.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from benchmarks.learning import LearningRun, learn
from benchmarks.support.small_model import BASE, EASY
from benchmarks.support.workspace import make_workspace
from flows.cli.presets import preset
from flows.process.exit_codes import exit_code
from flows.stages.durations import last_seconds
from tasks.artifacts import write_text
from tasks.layout import Layout
from tasks.params.file import load_params

if TYPE_CHECKING:
    from rich.table import Table

FLIPPED = 0.3
TERMS = f"""
from tasks.programs.answer_check import is_right
from tasks.seeds import derive_seed

def flipped(problem, text, results):
    right = all(map(is_right, results, problem.answers))
    inverted = derive_seed("flip", problem.question, text) % 1000 < {1000 * FLIPPED:.0f}
    return float(right != (inverted and problem.problem_id.startswith("train-")))

def answers(problem, text, results):
    count = 1 if problem.problem_id.startswith("train-") else len(results)
    return float(all(map(is_right, results[:count], problem.answers[:count])))

def exact(problem, text, results):
    return float(all(map(is_right, results, problem.answers)))
"""
"""The module of `rewards.own`."""

PARAMS = (*BASE, *EASY, *preset("medium"))
"""What the runs have in common."""

_EIGHT_COMPLETIONS = ("search.samples=8", "search.simulations=8", "update.group_size=8")
VARIANTS = {
    "none": ("influence.selection=none",),
    "positive": (
        "influence.selection=positive",
        "influence.n=16",
        "influence.completions=8",
        "influence.memory_budget=2048",
        *_EIGHT_COMPLETIONS,
    ),
    "trusted": (
        "influence.selection=none",
        "search.problems=16",
        "update.prompts_per_step=4",
        *_EIGHT_COMPLETIONS,
    ),
}
CONDITIONS = {"flipped": ("none", "positive"), "answers": ("none", "positive"), "exact": ("trusted",)}
"""Training rewards → the variants that are run with them."""


@dataclass(frozen=True)
class SelectionRun:
    """A run and the seconds that select and update took in a round."""

    run: LearningRun
    select: float
    update: float


Runs = dict[tuple[str, str], list[SelectionRun]]
"""(condition, variant) → a run of each seed."""


def prepare(root: Path, condition: str, variant: str, seed: int, assignments: Sequence[str]) -> None:
    """A workspace with PARAMS, the rewards of the condition, and the selection of the variant."""
    term = f"rewards.own=[{{name: {condition}, term: 'terms:{condition}', weight: 1.0}}]"
    make_workspace(
        root,
        [*PARAMS, "rewards.correctness=0.0", term, *VARIANTS[variant], f"seed={seed}", *assignments],
    )
    write_text(root / "terms.py", TERMS)


def stage_seconds(root: Path, stage: str) -> float:
    """Seconds of a stage, the mean of the rounds."""
    layout = Layout(root)
    rounds = load_params(root / "params.yaml").rounds.last
    return fmean(last_seconds(layout, f"{stage}@{number}") or 0.0 for number in range(1, rounds + 1))


def figures(runs: Runs) -> dict[str, float]:
    """Means over the seeds, and the gain of `positive` in right samples over `none` and over `trusted`."""
    found: dict[str, float] = {}
    for (condition, variant), own in runs.items():
        for name, metric in METRICS.items():
            found[f"{condition}_{variant}_{name}_before"] = fmean(each.run.before[metric] for each in own)
            found[f"{condition}_{variant}_{name}"] = fmean(each.run.after[metric] for each in own)
        found[f"{condition}_{variant}_minutes"] = fmean(each.run.seconds for each in own) / 60
    for condition in ("flipped", "answers"):
        selected = f"{condition}_positive_sampled"
        for name, other in (("gain", f"{condition}_none_sampled"), ("gain_over_trusted", "exact_trusted_sampled")):
            if selected in found and other in found:
                found[f"{condition}_{name}"] = found[selected] - found[other]
    return {name: round(number, 4) for name, number in found.items()}


METRICS = {"greedy": "pass_at_1_greedy", "sampled": "sampled_mean", "pass_at_10": "pass_at_10"}


def table(runs: Runs, seeds: Sequence[int]) -> "Table":
    """A row for each run: before → after, and the seconds of select and update in a round."""
    from rich.table import Table

    made = Table(title="test problems solved, before → after", title_justify="left")
    for title in ("rewards", "selection", "seed", *METRICS, "select, s", "update, s", "minutes"):
        made.add_column(title, justify="left" if title in ("rewards", "selection") else "right")
    for (condition, variant), own in runs.items():
        for seed, each in zip(seeds, own, strict=True):
            changes = [f"{each.run.before[name]:.3f} → {each.run.after[name]:.3f}" for name in METRICS.values()]
            seconds = (f"{each.select:.0f}", f"{each.update:.0f}", f"{each.run.seconds / 60:.1f}")
            made.add_row(condition, variant, str(seed), *changes, *seconds)
    return made


def main(arguments: Sequence[str]) -> None:
    """Run, print the table, and as the last line the figures."""
    from rich.console import Console

    parser = argparse.ArgumentParser(
        "python -m benchmarks.selection_real_model", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], metavar="SEED")
    parser.add_argument("--conditions", nargs="+", choices=CONDITIONS, default=[*CONDITIONS], metavar="NAME")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=[*VARIANTS], metavar="NAME")
    parser.add_argument("-S", dest="assignments", action="append", default=[], metavar="KEY=VALUE", help="set a param")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the workspaces, and go on with what is there")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what the runs print")
    options = parser.parse_args(arguments)
    runs: Runs = {}
    planned = [(name, each) for name in options.conditions for each in CONDITIONS[name] if each in options.variants]
    if not planned:
        parser.error(f"--variants: none of {', '.join(options.variants)} is run with these --conditions")
    with tempfile.TemporaryDirectory(prefix="graft-selection-") as temporary:
        for seed in options.seeds:
            for condition, variant in planned:
                root = (options.keep or Path(temporary)) / f"{condition}-{variant}-{seed}"
                if not root.exists():
                    prepare(root, condition, variant, seed, options.assignments)
                run = learn(root, seed, (), options.verbose)
                each = SelectionRun(run, stage_seconds(root, "select"), stage_seconds(root, "update"))
                runs.setdefault((condition, variant), []).append(each)
    Console(width=None if sys.stdout.isatty() else 140).print(table(runs, options.seeds))
    print(json.dumps({**figures(runs), "seeds": options.seeds}))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
