"""Learning of the presets `small` and `medium` from a pretrained base: complete runs, in two environments.

    python -m benchmarks.presets --seeds 0 1 2 3 4

The base is SmolLM2 of 135M parameters (`make smollm2`) with a plain prompt of worked examples. In `workflow` it writes
programs for built-in problems of one operation, in `answer` solutions in tags of sums of numbers up to 30
(benchmarks/support/sums.py). All else is the preset's. With `--keep` the workspaces stay, and a benchmark that was
ended goes on where it was. The last line of standard output is one JSON object with the figures of each preset and
environment.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from benchmarks.learning import LearningRun, learn
from benchmarks.support.small_model import BASE, EASY
from benchmarks.support.sums import write_sums
from benchmarks.support.workspace import make_workspace
from flows.cli.presets import preset
from flows.process.exit_codes import exit_code

if TYPE_CHECKING:
    from rich.table import Table

NAMES = ("small", "medium")
"""Presets that leave the base to the user and take minutes; for `smollm2` there is benchmarks/real_model.py."""

SUMS = "sums.jsonl"
SIBLINGS = 3  # of each sum: another question in each round of a run
ENVIRONMENTS = {
    "workflow": EASY,
    "answer": ("environment=answer", "problems.source=jsonl", f"problems.path={SUMS}", "policy.max_new_tokens=64"),
}

METRICS = {"greedy": "pass_at_1_greedy", "sampled": "sampled_mean", "pass_at_5": "pass_at_5"}

Runs = dict[tuple[str, str], list[LearningRun]]
"""(preset, environment) → a run of each seed."""


def prepare(root: Path, name: str, environment: str, seed: int) -> None:
    """A workspace with the params of a preset and an environment, and with the sums."""
    make_workspace(root, [*preset(name), *BASE, *ENVIRONMENTS[environment], "machine.tracking.uri=", f"seed={seed}"])
    write_sums(root / SUMS, 400, SIBLINGS, seed)


def figures(runs: Sequence[LearningRun]) -> dict[str, float]:
    """The means over the seeds, before and after, the smallest gain of any and the minutes."""
    found = {
        **{f"{short}_before": fmean(run.before[name] for run in runs) for short, name in METRICS.items()},
        **{f"{short}_after": fmean(run.after[name] for run in runs) for short, name in METRICS.items()},
        **{f"{short}_gain_worst": min(run.gain(name) for run in runs) for short, name in METRICS.items()},
        "minutes": fmean(run.seconds for run in runs) / 60,
    }
    return {name: round(number, 4) for name, number in found.items()}


def table(runs: Runs) -> "Table":
    """A row for each preset and environment, the means over the seeds: before → after."""
    from rich.table import Table

    made = Table(title="presets with SmolLM2-135M, before → after", title_justify="left")
    for title in ("preset", "environment", "seeds", "greedy", "sampled", "pass@5", "minutes"):
        made.add_column(title, justify="left" if title in ("preset", "environment") else "right")
    for (name, environment), own in runs.items():
        numbers = figures(own)
        pairs = [f"{numbers[f'{m}_before']:.3f} → {numbers[f'{m}_after']:.3f}" for m in METRICS]
        made.add_row(name, environment, str(len(own)), *pairs, f"{numbers['minutes']:.1f}")
    return made


def main(arguments: Sequence[str]) -> None:
    """Run, print the table, and as the last line the figures."""
    from rich.console import Console

    parser = argparse.ArgumentParser("python -m benchmarks.presets", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], metavar="SEED")
    parser.add_argument("--presets", nargs="+", choices=NAMES, default=NAMES, metavar="NAME")
    parser.add_argument("--environments", nargs="+", choices=ENVIRONMENTS, default=[*ENVIRONMENTS], metavar="NAME")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the workspaces, and go on with what is there")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what the runs print")
    options = parser.parse_args(arguments)
    runs: Runs = {}
    with tempfile.TemporaryDirectory(prefix="graft-presets-") as temporary:
        for name in options.presets:
            for environment in options.environments:
                own = runs.setdefault((name, environment), [])
                for seed in options.seeds:
                    root = (options.keep or Path(temporary)) / f"{name}-{environment}-{seed}"
                    if not root.exists():
                        prepare(root, name, environment, seed)
                    own.append(learn(root, seed, (), options.verbose))
    Console(width=None if sys.stdout.isatty() else 140).print(table(runs))
    rounded = {name: {e: figures(own) for (n, e), own in runs.items() if n == name} for name in options.presets}
    print(json.dumps({**rounded, "seeds": options.seeds}))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
