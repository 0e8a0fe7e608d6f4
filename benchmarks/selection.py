"""Effect of selecting samples by influence, on the pipeline's problems and embedded policy in four conditions.

    python -m benchmarks.selection

Each seed has its problems and first policy. Every variant trains for the same number of rounds and optimiser steps on
the same number of completions; validation completions are not trained on unless they are mixed in.
benchmarks/influence_selection/world.py has the conditions; GRPO is as shipped except for KL and schedule. A table of
its own takes fewer steps where fewer training samples are kept.

`final` is trusted pass@1 of test problems (right on the problem and all its siblings, sampled at temperature 1),
`curve` the mean over the rounds of the same for the training rollouts (the area under the curve), both less vanilla's
of the same seed, with the standard error over the seeds; `kept` what is learned from, validation's own completions not
counted where they are mixed in, as a share of the training samples with a signal; `seconds` processor time of the
rounds.

`flipped_auc_n`: how well influence against n validation completions tells flipped from unflipped rewards (1 = always,
0.5 = not at all) among the samples that are learned from at the first policy. The last line of standard output is one
JSON object.
"""

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from benchmarks.influence_selection.flip_auc import auc
from benchmarks.influence_selection.training_run import Job, RunResult, run
from benchmarks.influence_selection.variants import ALL, CHOSEN, FULL, LEAST, PLAN, PROBLEMS
from benchmarks.influence_selection.world import Condition
from benchmarks.support.process_pool import pool_of
from benchmarks.support.workspace import graft, make_workspace
from flows.process.exit_codes import exit_code
from tasks.errors import GraftError

if TYPE_CHECKING:
    from rich.table import Table

FULL_ROUNDS, FULL_PROBLEMS = 6, 200
"""As shipped."""

Runs = dict[tuple[Condition, bool, str], list[RunResult]]
"""(condition, whether steps are by what is kept, variant) → a run for each seed."""


def prepare(folder: Path, seed: int) -> Path:
    """Problems and a first policy. Raises GraftError where a stage fails."""
    make_workspace(folder, [f"seed={seed}", "tracking.uri=''"])
    ended = graft(folder, "stage", "problems", "coldstart", "bootstrap")
    if ended.returncode:
        raise GraftError(f"seed {seed}: {ended.stderr.strip().splitlines()[-1]}; mend that first")
    return folder


def jobs(
    folders: dict[int, Path], rounds: int, problems: int = PROBLEMS, variants: Sequence[str] | None = None
) -> list[Job]:
    """A run of each variant that the plan names for a condition, or of these and what the figures need."""
    return [
        Job(folder, seed, condition, name, ALL[name], rounds, problems, by_kept)
        for seed, folder in folders.items()
        for (condition, by_kept), planned in PLAN.items()
        for name in (planned if variants is None else dict.fromkeys([*LEAST, *variants]))
    ]


def table(condition: Condition, by_kept: bool, runs: Runs) -> "Table":
    """A row a variant."""
    from rich.table import Table

    made = Table(title=condition + ", fewer steps where less is kept" * by_kept, title_justify="left")
    for column in ("", "final", "final - vanilla", "curve - vanilla", "kept", "steps", "seconds"):
        made.add_column(column, justify="right" if column else "left")
    base = runs[condition, by_kept, "vanilla"]
    for (of, own, name), learned in runs.items():
        if (of, own) != (condition, by_kept):
            continue
        made.add_row(
            name,
            f"{fmean(one.final for one in learned):.3f}",
            _paired([one.final - other.final for one, other in zip(learned, base, strict=True)]),
            _paired([fmean(one.curve) - fmean(other.curve) for one, other in zip(learned, base, strict=True)]),
            f"{fmean(fmean(one.kept) for one in learned):.0%}",
            f"{fmean(one.steps for one in learned):.0f}",
            f"{fmean(one.seconds for one in learned):.0f}",
        )
    return made


def figures(runs: Runs, aucs: dict[int, list[float]]) -> dict[str, float | None]:
    """Of the selection as shipped; None where vanilla loses too little for a trial of it."""

    def final(condition: Condition, name: str, by_kept: bool = False) -> float:
        return fmean(one.final for one in runs[condition, by_kept, name])

    def steps(name: str) -> float:
        return fmean(one.steps for one in runs["flipped", True, name])

    gap = final("answer_only", "oracle drop") - final("answer_only", "vanilla")
    recovered = (final("answer_only", CHOSEN) - final("answer_only", "vanilla")) / gap if gap >= 0.05 else None
    lost = final("biased", "oracle drop") - final("biased", "vanilla")
    numbers = {
        "clean_gain": final("clean", CHOSEN) - final("clean", "vanilla"),
        **{f"flipped_auc_{judges}": fmean(found) for judges, found in aucs.items()},
        "flipped_gain": final("flipped", CHOSEN) - final("flipped", "vanilla"),
        "flipped_gain_4_epochs": final("flipped", CHOSEN, True) - final("flipped", "vanilla", True),
        "flipped_step_share": steps(CHOSEN) / max(steps("vanilla"), 1),
        "answer_only_gap": gap,
        "answer_only_recovered": recovered,
        "biased_lost": lost,
        "biased_gap_to_oracle": final("biased", "oracle drop") - final("biased", CHOSEN) if lost >= 0.1 else None,
    }
    return {name: None if number is None else round(number, 4) for name, number in numbers.items()}


def _paired(differences: Sequence[float]) -> str:
    error = stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else math.nan
    return f"{fmean(differences):+.3f} ± {error:.3f}"


def main(arguments: Sequence[str]) -> None:
    """Run, print the tables, and as the last line the figures."""
    from rich.console import Console

    options = _options(arguments)
    variants = FULL if options.full else options.variants
    with tempfile.TemporaryDirectory(prefix="graft-selection-") as temporary, pool_of(options.processes) as pool:
        made = [pool.submit(prepare, Path(temporary, str(seed)), seed) for seed in options.seeds]
        folders = {seed: one.result() for seed, one in zip(options.seeds, made, strict=True)}
        rounds, problems = (FULL_ROUNDS, FULL_PROBLEMS) if options.full else (options.rounds, PROBLEMS)
        planned = jobs(folders, rounds, problems, variants)
        judged = {n: [pool.submit(auc, folders[seed], seed, n) for seed in options.seeds] for n in (128, 1024)}
        runs: Runs = {}
        for job, learned in zip(planned, pool.map(run, planned), strict=True):
            runs.setdefault((job.condition, job.by_kept, job.name), []).append(learned)
            print(f"{job.seed} {job.condition}{' by kept' * job.by_kept} {job.name}: {learned}", file=sys.stderr)
        aucs = {judges: [one.result() for one in found] for judges, found in judged.items()}
    console = Console(width=None if sys.stdout.isatty() else 120)
    for condition, by_kept in dict.fromkeys((condition, by_kept) for condition, by_kept, _ in runs):
        console.print(table(condition, by_kept, runs))
    print(json.dumps(figures(runs, aucs)))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.selection", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3], metavar="SEED")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2, help="runs at a time")
    parser.add_argument("--variants", nargs="+", choices=ALL, metavar="NAME", help="these, and what the figures need")
    parser.add_argument("--full", action="store_true", help="all variants, in rounds as shipped: about a day")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
