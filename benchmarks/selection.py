"""Does it help to select samples by influence? The pipeline's own problems and embedded policy, four conditions.

    python -m benchmarks.selection

Each seed has its problems and first policy. From there every variant learns with the same number of training rollouts,
rounds and epochs, under each condition (benchmarks/selection_run.py says what they are), with GRPO as shipped but for
KL and schedule. `final` is trusted pass@1 of test problems (right on the problem and all its siblings, sampled at
temperature 1), `curve` the mean over the rounds of the same for the training rollouts (the area under the curve),
both less vanilla's of the same seed, with the standard error over the seeds; `kept` the share of samples with a signal
that are learned from; `seconds` processor time of the rounds.

`flipped_auc_n`: how well influence against n validation completions tells flipped from unflipped rewards (1 = always,
0.5 = not at all) among the samples that are learned from at the first policy. The last line of standard output is one
JSON object.
"""

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from benchmarks.pool import pool_of
from benchmarks.selection_run import VARIANTS, Condition, Job, Learned, auc, run
from benchmarks.workspace import graft, make_workspace
from flows.answer import exit_code
from tasks.errors import GraftError

if TYPE_CHECKING:
    from rich.table import Table

CONDITIONS: tuple[Condition, ...] = ("clean", "flipped", "answer_only", "biased")
CHOSEN = "held-out 1024, local"
ONE_EPOCH = ("vanilla", CHOSEN)
"""What is also run with one epoch a round, with flipped rewards."""

Runs = dict[tuple[Condition, int, str], list[Learned]]
"""(condition, epochs, variant) → a run for each seed."""


def prepare(folder: Path, seed: int) -> Path:
    """Problems and a first policy. Raises GraftError where a stage fails."""
    make_workspace(folder, [f"seed={seed}", "tracking.uri=''"])
    ended = graft(folder, "stage", "problems", "coldstart", "bootstrap")
    if ended.returncode:
        raise GraftError(f"seed {seed}: {ended.stderr.strip().splitlines()[-1]}; mend that first")
    return folder


def jobs(folders: dict[int, Path], names: Iterable[str], rounds: int, epochs: int) -> list[Job]:
    found = []
    for seed, folder in folders.items():
        for condition in CONDITIONS:
            found += [Job(folder, seed, condition, name, VARIANTS[name], rounds, epochs) for name in names]
        found += [Job(folder, seed, "flipped", name, VARIANTS[name], rounds, 1) for name in ONE_EPOCH]
    return found


def table(condition: Condition, epochs: int, runs: Runs) -> "Table":
    """A row a variant."""
    from rich.table import Table

    made = Table(title=f"{condition}, {epochs} epochs a round", title_justify="left")
    for column in ("", "final", "final - vanilla", "curve - vanilla", "kept", "steps", "seconds"):
        made.add_column(column, justify="right" if column else "left")
    base = runs[condition, epochs, "vanilla"]
    for (of, own, name), learned in runs.items():
        if (of, own) != (condition, epochs):
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


def figures(runs: Runs, epochs: int, aucs: dict[int, list[float]]) -> dict[str, float | None]:
    """Of the selection for rewards that err; None where vanilla loses too little for a trial of it."""

    def final(condition: Condition, name: str, of: int = epochs) -> float:
        return fmean(one.final for one in runs[condition, of, name])

    def steps(name: str) -> float:
        return fmean(one.steps for one in runs["flipped", epochs, name])

    gap = final("answer_only", "oracle drop") - final("answer_only", "vanilla")
    recovered = (final("answer_only", CHOSEN) - final("answer_only", "vanilla")) / gap if gap >= 0.05 else None
    lost = final("biased", "oracle drop") - final("biased", "vanilla")
    numbers = {
        "clean_gain": final("clean", CHOSEN) - final("clean", "vanilla"),
        **{f"flipped_auc_{judges}": fmean(found) for judges, found in aucs.items()},
        "flipped_gain": final("flipped", CHOSEN, 1) - final("flipped", "vanilla", 1),
        f"flipped_gain_{epochs}_epochs": final("flipped", CHOSEN) - final("flipped", "vanilla"),
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
    names = list(dict.fromkeys(["vanilla", CHOSEN, "oracle drop", *(options.variants or VARIANTS)]))
    with tempfile.TemporaryDirectory(prefix="graft-selection-") as temporary, pool_of(options.processes) as pool:
        made = [pool.submit(prepare, Path(temporary, str(seed)), seed) for seed in options.seeds]
        folders = {seed: one.result() for seed, one in zip(options.seeds, made, strict=True)}
        planned = jobs(folders, names, options.rounds, options.epochs)
        judged = {n: [pool.submit(auc, folders[seed], seed, n) for seed in options.seeds] for n in (128, 1024)}
        runs: Runs = {}
        for job, learned in zip(planned, pool.map(run, planned), strict=True):
            runs.setdefault((job.condition, job.epochs, job.name), []).append(learned)
            print(f"{job.seed} {job.condition} {job.epochs} {job.name}: {learned.final:.3f}", file=sys.stderr)
        aucs = {judges: [one.result() for one in found] for judges, found in judged.items()}
    console = Console(width=None if sys.stdout.isatty() else 120)
    for condition, epochs in dict.fromkeys((condition, epochs) for condition, epochs, _ in runs):
        console.print(table(condition, epochs, runs))
    print(json.dumps(figures(runs, options.epochs, aucs)))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.selection", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3], metavar="SEED")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=4, help="passes over a round's samples")
    parser.add_argument("--processes", type=int, default=2, help="runs at a time")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, metavar="NAME", help="only these")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
