"""Gain of the audit of every run's rewards (`influence.selection: audit`), and how often it is right.

    python -m benchmarks.selection
    python -m benchmarks.selection --complete-runs        also what selection takes of complete runs
    python -m benchmarks.selection --processes 0          only the tables, of the results that there are

Training, with the pipeline's problems and embedded policy: each seed has its problems and first policy, from which each
variant trains for two rounds of four epochs on 1,536 completions a round, 24 of each of 64 problems. Those have the
rewards of a condition, which benchmarks/influence_selection/conditions.py has; GRPO is as shipped except for KL,
schedule, rate and number of epochs.

    no selection      learns from these completions alone, as do `majority`, which rewards the most frequent answer of a
                      group, and `oracle`, which drops what would have no advantage by trusted rewards
    audit             has 512 trusted completions, 8 of each of 64 validation problems, on top of the 1,536, as a run as
                      shipped, and 1,024 unless rewards look right; it learns from them, too, with as many problems a
                      step, and where rewards err from the samples with positive influence on them
    trusted alone     learns from 512 or 1,024 trusted completions, and has no others
    influence         `influence.selection: positive`: 1,024 of the 1,536 are trusted, and learned from, too

`final` is trusted pass@1 of test problems (right on the problem and all its siblings, sampled at temperature 1);
differences are paired by seed, with a 95 % interval (Student's t over the seeds); `err`: rounds in which the audit says
that rewards err; `kept`: what is learned from, as a share of the training samples with a signal, validation's not
counted; `seconds`: processor time of the rounds.

Answers: the audit of rounds of runs as shipped, benchmarks/influence_selection/audited_rounds.py.

It takes about 40 CPU minutes, and about 40 minutes more with complete runs: `graft retrain` as shipped, with `audit`
and `positive` for each seed, with `none` for the first; their seconds are to be measured on idle cores. Each run's
result is a line of `--keep` (benchmarks/influence_selection/results.jsonl), with date and machine. A command computes
what is missing there and can be ended at any time; the tables are of what is there.

The last line of standard output is one JSON object of means over `--seeds`; a figure is null while a run that it needs
is missing, and the note under the tables says which. `…_gain`: audit over no selection; `…_gap`: the better of majority
and 512 trusted alone over audit, `gap_to_best` the largest; `false_alarm_share`: answers `err` where rewards are exact;
`detected_…`: runs in which the audit of round 1 or 2 says `err`, where so many per cent of the rewards are inverted;
`audit_seconds_share`: of complete runs, seconds of the stages `select`, less those without an audit, over those of the
run; `positive_clean_loss_greedy`, `…_sampled`: pass@1 of complete runs with the audit less that with `positive`.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.influence_selection.audited_rounds import AuditedRounds
from benchmarks.influence_selection.complete_run import CompleteRun
from benchmarks.influence_selection.figures import CompleteRuns, Runs, answers_table, figures, training_table
from benchmarks.influence_selection.training_run import TrainingRun
from benchmarks.influence_selection.variants import PLAN
from benchmarks.support.process_pool import pool_of, results_of
from benchmarks.support.short_runs import Figures, append_figures, make_start, params_of, read_figures
from flows.process import settings
from flows.process.exit_codes import exit_code
from tasks.params.fields import SelectionRule
from tests.support.workspace import PROJECT

RESULTS = PROJECT / "benchmarks" / "influence_selection" / "results.jsonl"

COMPARED: tuple[SelectionRule, ...] = ("audit", "positive")
"""Selections of the complete runs of each seed."""

Job = TrainingRun | AuditedRounds


def training_runs(root: Path, seed: int) -> list[TrainingRun]:
    """A run of each variant that the plan names for a condition."""
    return [TrainingRun(root, seed, condition, name) for condition, variants in PLAN.items() for name in variants]


def prepare(job: Job) -> None:
    """Problems and a first policy of the job, unless they are there."""
    import torch

    torch.set_num_threads(1)
    make_start(job.folder, params_of(job.start))


def compute(jobs: Sequence[Job], keep: Path, processes: int) -> None:
    """Run what is missing, `processes` at a time; each result is appended to `keep` as it comes."""
    left = missing(jobs, keep)
    if not (left and processes):
        return
    with pool_of(processes) as pool:
        starts = {job.folder: job for job in left}
        for made in [pool.submit(prepare, job) for job in starts.values()]:
            made.result()
        for job, found in results_of(pool, figures_of, left):
            append_figures(keep, job.digest, found, **job.labels)
            print(f"{job.labels}: {found}", file=sys.stderr)


def figures_of(job: Job) -> Figures:
    """The figures of a job."""
    return job.run()


def missing(jobs: Sequence[Job], keep: Path) -> list[Job]:
    """The jobs without a result, in order; of those with equal digests the first."""
    first = {job.digest: job for job in reversed(jobs)}
    return sorted(set(first.values()) - read_figures(keep, first).keys(), key=jobs.index)


def main(arguments: Sequence[str]) -> None:
    """Run, print the tables, and as the last line the figures."""
    from rich.console import Console

    options = _options(arguments)
    settings.set_environment()
    with tempfile.TemporaryDirectory(prefix="graft-selection-") as temporary:
        root = options.workspaces or Path(temporary)
        training = [job for seed in options.seeds for job in training_runs(root, seed)]
        rounds = [AuditedRounds(root, seed) for seed in options.seeds]
        compute([*training, *rounds], options.keep, options.processes)
    complete = [CompleteRun("none", options.seeds[0])]
    complete += [CompleteRun(selection, seed) for seed in options.seeds for selection in COMPARED]
    for run in complete if options.complete_runs else []:  # one at a time: a run has all cores
        if not read_figures(options.keep, {run.digest: run}):
            append_figures(options.keep, run.digest, run.run(), **run.labels)

    digests = [job.digest for job in training] + [job.digest for job in rounds] + [run.digest for run in complete]
    known = read_figures(options.keep, {digest: digest for digest in digests})
    runs: Runs = {}
    for job in training:
        if job.digest in known:
            runs.setdefault((job.condition, job.name), {})[job.seed] = known[job.digest]
    ended: CompleteRuns = {}
    for run in complete:
        if run.digest in known:
            ended.setdefault(run.selection, {})[run.seed] = known[run.digest]
    answers = {job.seed: known[job.digest] for job in rounds if job.digest in known}
    console = Console(width=None if sys.stdout.isatty() else 140)
    for condition in dict.fromkeys(condition for condition, _ in runs):
        console.print(training_table(condition, runs))
    console.print(answers_table(answers))
    numbers, notes = figures(runs, answers, ended, options.seeds)
    for note in notes:
        console.print(note, markup=False, highlight=False)
    print(json.dumps(numbers))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.selection", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)), metavar="SEED")
    parser.add_argument("--processes", type=int, default=2, help="runs at a time; 0: only the tables")
    parser.add_argument(
        "--complete-runs", action="store_true", help="measure audit_seconds_share and positive_clean_loss too"
    )
    parser.add_argument("--keep", type=Path, default=RESULTS, metavar="FILE", help="results, a line a run")
    parser.add_argument("--workspaces", type=Path, metavar="FOLDER", help="where first policies stay")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
