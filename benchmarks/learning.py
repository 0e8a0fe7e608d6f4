"""Learning of the main job: the complete chain, once per seed, in a copy of the project.

    python -m benchmarks.learning --seeds 0 1 2
    python -m benchmarks.learning --preset published

Everything is as shipped except for the seed and what `--preset` and `-S` set. Greedy is pass@1 at temperature 0;
sampled is the mean of c/n, the share of right samples of a test problem (at `evaluation.temperature`, 0.8 as shipped).
The last line of standard output is one JSON object with the means over the seeds.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

from flows.cli.presets import preset, presets
from flows.process.exit_codes import exit_code
from tasks.core.metrics_files import read_metrics
from tasks.errors import GraftError
from tasks.layout import Layout
from tests.support.workspace import graft, make_workspace

if TYPE_CHECKING:
    from rich.table import Table

Metrics = dict[str, float]

GREEDY, SAMPLED = "pass_at_1_greedy", "sampled_mean"

FIGURES = {
    "greedy": GREEDY,
    "seen": "pass_at_1_greedy_seen",
    "unseen": "pass_at_1_greedy_unseen",
    "new_phrasing": "pass_at_1_greedy_new_phrasing",
    "new_composition": "pass_at_1_greedy_new_composition",
    "sampled": SAMPLED,
    "pass_at_5": "pass_at_5",
    "pass_at_10": "pass_at_10",
    "cut": "cut",
}
"""Name of a figure → the metric of `evaluate`. Those of seen and unseen are of templates; which of them there are
depends on `stories`."""


@dataclass(frozen=True)
class LearningRun:
    """Metrics of the first and the final policy of a run."""

    before: Metrics
    after: Metrics
    seconds: float  # wall time of the command, from its start to its end

    def gain(self, name: str) -> float:
        return self.after[name] - self.before[name]


def learn(root: Path, seed: int, assignments: Sequence[str], verbose: bool) -> LearningRun:
    """Run the chain in a workspace at `root`; its output goes to the log beside it or, verbose, to stderr.

    A workspace that is there is taken: what an earlier run has finished in it is not computed again. Raises GraftError
    where the run fails.
    """
    if not root.exists():
        make_workspace(root, [*assignments, f"seed={seed}"])
    started = time.monotonic()
    with root.with_suffix(".log").open("w+", encoding="utf-8") as log:
        output = sys.stderr if verbose else log
        ended = graft(root, "retrain", stdout=output, stderr=output)
        seconds = time.monotonic() - started
        log.seek(0)
        last_words = log.read().strip().rpartition("\n")[2]
    if ended.returncode:
        raise GraftError(
            f"seed {seed}: graft retrain ended with {ended.returncode}: {last_words}; see all with --verbose"
        )
    layout = Layout(root)
    return LearningRun(read_metrics(layout, "evaluate@before"), read_metrics(layout, "evaluate@after"), seconds)


def learn_all(options: argparse.Namespace, assignments: Sequence[str]) -> dict[int, LearningRun]:
    """A run for each seed of the command's options (`parser_of`)."""
    runs: dict[int, LearningRun] = {}
    with tempfile.TemporaryDirectory(prefix="graft-learning-") as temporary:
        for seed in options.seeds:
            root = (options.keep or Path(temporary)) / f"seed-{seed}"
            runs[seed] = learn(root, seed, assignments, options.verbose)
            print(f"seed {seed}: {runs[seed].seconds:.0f} s", file=sys.stderr)
    return runs


def figures(runs: Sequence[LearningRun]) -> dict[str, float]:
    """The means over the runs, the smallest greedy gain of any run, and the median of their times."""

    def mean(name: str, when: str) -> float:
        return fmean(getattr(run, when)[name] for run in runs)

    numbers = {
        "worst_seed_gain": min(run.gain(GREEDY) for run in runs),
        "seconds_median": median(run.seconds for run in runs),
    }
    for title, name in FIGURES.items():
        if all(name in run.after for run in runs):
            numbers[f"{title}_before"] = mean(name, "before")
            numbers[f"{title}_after"] = mean(name, "after")
            numbers[f"{title}_gain"] = fmean(run.gain(name) for run in runs)
    return {name: round(number, 4) for name, number in numbers.items()}


def table(runs: dict[int, LearningRun]) -> "Table":
    """A row a seed and one of the means: before → after."""
    from rich.table import Table

    titles = {name: title for title, name in FIGURES.items() if all(name in run.after for run in runs.values())}
    made = Table(title="test problems solved, before → after", title_justify="left")
    for title in ("seed", *(title.replace("_", " ") for title in titles.values()), "seconds"):
        made.add_column(title, justify="right")
    for seed, run in runs.items():
        levels = [_change(run.before[name], run.after[name]) for name in titles]
        made.add_row(str(seed), *levels, f"{run.seconds:.0f}")
    every = list(runs.values())
    means = [_change(fmean(r.before[name] for r in every), fmean(r.after[name] for r in every)) for name in titles]
    made.add_section()
    made.add_row("mean", *means, f"{fmean(run.seconds for run in every):.0f}")
    return made


def _change(before: float, after: float) -> str:
    return f"{before:.3f} → {after:.3f}"


def main(arguments: Sequence[str]) -> None:
    """Run, print the table, and as the last line the figures."""
    from rich.console import Console

    parser = parser_of("learning", __doc__ or "")
    parser.add_argument("--preset", choices=presets(), metavar="NAME", help="its params, before those of -S")
    options = parser.parse_args(arguments)
    assignments = [*(preset(options.preset) if options.preset else []), *options.assignments]
    runs = learn_all(options, assignments)
    Console(width=None if sys.stdout.isatty() else 140).print(table(runs))
    print(json.dumps({**figures(list(runs.values())), "seeds": list(runs)}))


def parser_of(name: str, description: str, seeds: str = "+") -> argparse.ArgumentParser:
    """The options of a benchmark that learns once for each seed, of which there are `+` or `*`."""
    parser = argparse.ArgumentParser(f"python -m benchmarks.{name}", description=description.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs=seeds, default=[0, 1, 2], metavar="SEED")
    parser.add_argument("-S", dest="assignments", action="append", default=[], metavar="KEY=VALUE", help="set a param")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the workspaces and logs in this folder, and use what is there"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show what the runs print")
    return parser


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
