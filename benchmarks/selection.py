"""Effect of selecting samples by influence, on the pipeline's problems and embedded policy whose rewards err.

    python -m benchmarks.selection
    python -m benchmarks.selection --conditions flipped biased --variants decisive --seeds 0 1 2 3 4 5 6 7
    python -m benchmarks.selection --processes 0          only the tables, of the results that there are

Each seed has its problems and first policy. Every variant trains for the same number of rounds, of epochs and of steps
in an epoch, on the same number of completions, 1,536 a round: those that are trusted are held out, and learned from
where they are mixed in. `trusted alone` needs no others, and so has none. Those of training have the rewards of a
condition, which benchmarks/influence_selection/conditions.py has; GRPO is as shipped except for KL, schedule, rate and
number of epochs.

Each run's result is a line of `--keep` (benchmarks/influence_selection/results.jsonl), with date and machine. A command
computes what is missing there, seed by seed, and can be ended at any time; the tables are of what is there.

`final` is trusted pass@1 of test problems (right on the problem and all its siblings, sampled at temperature 1);
differences are paired by seed, with a 95 % interval (Student's t over the seeds); `kept` is what is learned from,
trusted completions not counted, as a share of the training samples with a signal; `seconds` processor time of the
rounds. `flipped_auc_n` (with `--auc`): how well influence against n trusted completions separates flipped from
unflipped rewards among the samples that are learned from at the first policy, 0.5 is chance.

The last line of standard output is one JSON object of means over `--seeds`; a figure is null while a run that it needs
is missing, and the note under the tables says which. Over the conditions `flipped`, `biased` and `answer_only`:
`few_trusted_gain_over_…`, the smallest mean gain of selection by influence with 16 or 64 trusted;
`gap_to_oracle_256`, its largest mean distance to the oracle. `exact_speedup` is that of
benchmarks.influence_selection.exact_rewards, of its kept results.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import as_completed
from pathlib import Path
from statistics import fmean
from typing import get_args

from benchmarks.influence_selection.conditions import Condition
from benchmarks.influence_selection.exact_rewards import RESULTS as EXACT
from benchmarks.influence_selection.exact_rewards import read_curves
from benchmarks.influence_selection.figures import Runs, figures, table
from benchmarks.influence_selection.flip_auc import auc
from benchmarks.influence_selection.training_run import SETTINGS, Job, run
from benchmarks.influence_selection.variants import ALL, DECISIVE, NONE, PLAN, PROBLEMS
from benchmarks.support.process_pool import pool_of
from benchmarks.support.short_runs import append_figures, make_start, params_of, read_figures
from benchmarks.support.workspace import PROJECT
from flows.process import settings
from flows.process.exit_codes import exit_code
from tasks.artifacts import digest_text

RESULTS = PROJECT / "benchmarks" / "influence_selection" / "results.jsonl"
GROUPS = {"decisive": DECISIVE, "all": tuple(ALL)}


def folder_of(root: Path, seed: int) -> Path:
    """Where the problems and the first policy of a seed stay, with the present params."""
    version = digest_text(params_of(SETTINGS).model_dump_json())[:8]
    return root / f"{version}-{seed}"


def prepare(folder: Path, seed: int) -> Path:
    """Problems and a first policy, unless they are there."""
    make_start(folder, params_of([*SETTINGS, f"seed={seed}"]))
    return folder


def jobs(
    folders: dict[int, Path],
    rounds: int,
    problems: int = PROBLEMS,
    conditions: Sequence[Condition] | None = None,
    variants: Sequence[str] | None = None,
) -> list[Job]:
    """A run of each variant that the plan names for a condition, or of those of `variants`; seed by seed."""
    return [
        Job(folder, seed, condition, name, ALL[name], rounds, problems)
        for seed, folder in folders.items()
        for condition, planned in PLAN.items()
        if conditions is None or condition in conditions
        for name in (planned if variants is None else ALL)
        if variants is None or name in variants
    ]


def compute(jobs: Sequence[Job], keep: Path, processes: int) -> None:
    """Run what is missing, `processes` at a time; each result is appended to `keep` as it comes."""
    left = missing(jobs, keep)
    if not (left and processes):
        return
    with pool_of(processes) as pool:
        folders = {job.seed: job.folder for job in left}
        for made in [pool.submit(prepare, folder, seed) for seed, folder in folders.items()]:
            made.result()
        running = {pool.submit(run, job): job for job in left}
        try:
            for ended in as_completed(running):
                job, found = running[ended], ended.result()
                labels = {"condition": job.condition, "variant": job.name, "seed": job.seed, "rounds": job.rounds}
                append_figures(keep, job.digest, found, **labels)
                print(f"{job.seed} {job.condition} {job.name}: {found}", file=sys.stderr)
        finally:
            pool.shutdown(cancel_futures=True)  # an ended command waits for the runs in progress alone


def missing(jobs: Sequence[Job], keep: Path) -> list[Job]:
    """The jobs without a result, in order; of those with equal digests the first."""
    first = {job.digest: job for job in reversed(jobs)}
    return sorted(set(first.values()) - read_figures(keep, first).keys(), key=jobs.index)


def runs_of(jobs: Sequence[Job], keep: Path) -> Runs:
    """The results that there are, by seed."""
    known = read_figures(keep, {job.digest: job.digest for job in jobs})
    runs: Runs = {}
    for job in jobs:
        if job.digest in known:
            runs.setdefault((job.condition, job.name), {})[job.seed] = known[job.digest]
    return runs


def main(arguments: Sequence[str]) -> None:
    """Run, print the tables, and as the last line the figures."""
    from rich.console import Console

    options = _options(arguments)
    settings.set_environment()
    variants = None
    if options.variants:
        variants = [name for given in options.variants for name in GROUPS.get(given, (given,))]
    with tempfile.TemporaryDirectory(prefix="graft-selection-") as temporary:
        folders = {seed: folder_of(options.workspaces or Path(temporary), seed) for seed in options.seeds}
        planned = jobs(folders, options.rounds, options.problems, options.conditions, variants)
        compute(planned, options.keep, options.processes)
        aucs: dict[int, list[float]] = {}
        if options.auc:
            made = {seed: prepare(folder, seed) for seed, folder in folders.items()}
            aucs = {n: [auc(folder, seed, n) for seed, folder in made.items()] for n in (128, 1024)}
    everything = jobs(folders, options.rounds, options.problems) + jobs(
        folders, options.rounds, options.problems, variants=list(ALL)
    )
    runs = runs_of(everything, options.keep)
    console = Console(width=None if sys.stdout.isatty() else 140)
    for condition in [condition for condition, name in runs if name == NONE]:
        console.print(table(condition, runs))
    numbers, notes = figures(runs, {n: fmean(found) for n, found in aucs.items()}, options.seeds, read_curves(EXACT))
    for note in notes:
        console.print(note, markup=False, highlight=False)
    print(json.dumps(numbers))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.selection", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(8)), metavar="SEED")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--problems", type=int, default=PROBLEMS, help="training problems of a round")
    parser.add_argument("--processes", type=int, default=2, help="runs at a time; 0: only the tables")
    parser.add_argument("--conditions", nargs="+", choices=get_args(Condition), metavar="CONDITION", help="only these")
    parser.add_argument(
        "--variants",
        nargs="+",
        choices=[*GROUPS, *ALL],
        metavar="NAME",
        help="not the plan's; decisive, all",
    )
    parser.add_argument("--keep", type=Path, default=RESULTS, metavar="FILE", help="results, a line a run")
    parser.add_argument("--workspaces", type=Path, metavar="FOLDER", help="where first policies stay")
    parser.add_argument("--auc", action="store_true", help="measure the flipped_auc figures, too")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
