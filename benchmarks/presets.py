"""Learning of the presets for any base: a complete run of each in the environment `answer`, from the same base.

    python -m benchmarks.presets

The presets expect a base that can calculate. As none is available offline, one is made first: a policy from scratch,
trained on a thousand worked sums. Its smallness requires other settings, listed in the table:
the learning rate times SCALE, and problems that it can solve at all (benchmarks/sums.py). All else is the preset's and
the shipped params'. The last line of standard output is one JSON object with the figures of each preset.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.sums import write_sums
from benchmarks.support.workspace import graft, make_workspace
from flows.cli.presets import PRESETS
from flows.process.exit_codes import exit_code
from tasks.core.metrics_files import read_metrics
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.file import load_params

if TYPE_CHECKING:
    from rich.table import Table

SCALE = 20
"""LoRA on two million random parameters needs a learning rate of 1e-3, a pretrained model 5e-5."""

ANSWERS = ("environment=answer", "problems.source=jsonl", "problems.path=sums.jsonl", "tracking.uri=")
BASE = (
    *ANSWERS,
    *("problems.train=400", "problems.validation=1", "problems.test=1"),
    *("bootstrap.hidden=96", "bootstrap.layers=4", "bootstrap.epochs=16", "bootstrap.learning_rate=0.002"),
)
SIBLINGS = 3  # of each problem: as many more worked sums for the base, and another question in each round of a run

NAMES = ("small", "improved")
"""The presets that leave the base to the user; `smollm2` is measured by benchmarks/real_model.py."""

Figures = dict[str, float]


def make_base(root: Path, seed: int, verbose: bool) -> Path:
    """Make a policy that can add a little; returns its folder."""
    make_workspace(root, [*BASE, f"seed={seed}"])
    write_sums(root / "sums.jsonl", 402, SIBLINGS, seed)
    _graft(root, verbose, "stage", "problems", "coldstart", "bootstrap")
    return Layout(root).policy(0)


def learn(root: Path, name: str, base: Path, rounds: int, seed: int, verbose: bool) -> Figures:
    """The run of a preset, from `base`, on sums that the base has not seen."""
    make_workspace(root, [*ANSWERS, f"policy.base={base}", f"rounds={rounds}", f"seed={seed}"])
    write_sums(root / "sums.jsonl", 400, SIBLINGS, seed + 1000, without=base.parents[3] / "sums.jsonl")
    assignments = dict(each.split("=") for each in PRESETS[name])
    rate = float(assignments["grpo.learning_rate"]) * SCALE
    _graft(root, verbose, "retrain", "--preset", name, "-S", f"grpo.learning_rate={rate:g}")
    layout = Layout(root)
    last = load_params(root / "params.yaml").rounds.last
    before, after = (read_metrics(layout, f"evaluate@{when}") for when in ("before", "after"))
    first, reward = (read_metrics(layout, f"reward@{round}") for round in (1, last))
    return {
        "greedy_before": before["pass_at_1_greedy"],
        "greedy_after": after["pass_at_1_greedy"],
        "sampled_before": before["sampled_mean"],
        "sampled_after": after["sampled_mean"],
        "pass_at_5_after": after["pass_at_5"],
        "hard_format_first": first["hard_format/mean"],
        "hard_format_mean": reward["hard_format/mean"],
        "mark_first": first["mark/mean"],
        "mark_mean": reward["mark/mean"],
    }


def table(found: dict[str, Figures]) -> "Table":
    """A row for each preset: before → after; of the terms the first round → the last."""
    from rich.table import Table

    made = Table(title=f"presets, learning rate × {SCALE}, environment answer", title_justify="left")
    for title in ("preset", "greedy", "sampled", "pass@5 after", "hard_format", "mark"):
        made.add_column(title, justify="left" if title == "preset" else "right")
    for name, numbers in found.items():
        pairs = [
            ("greedy_before", "greedy_after"),
            ("sampled_before", "sampled_after"),
            ("hard_format_first", "hard_format_mean"),
            ("mark_first", "mark_mean"),
        ]
        greedy, sampled, form, tags = (f"{numbers[a]:.3f} → {numbers[b]:.3f}" for a, b in pairs)
        made.add_row(name, greedy, sampled, f"{numbers['pass_at_5_after']:.3f}", form, tags)
    return made


def _graft(root: Path, verbose: bool, *arguments: str) -> None:
    """Raises GraftError where the command fails."""
    with root.with_suffix(".log").open("a+", encoding="utf-8") as log:
        output = sys.stderr if verbose else log
        ended = graft(root, *arguments, stdout=output, stderr=output)
        log.seek(0)
        last_words = log.read().strip().rpartition("\n")[2]
    if ended.returncode:
        raise GraftError(f"graft {arguments[0]} ended with {ended.returncode}: {last_words}; see all with --verbose")


def main(arguments: Sequence[str]) -> None:
    """Run, print the table, and as the last line the figures."""
    from rich.console import Console

    parser = argparse.ArgumentParser("python -m benchmarks.presets", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=6, help="rounds of each run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-v", "--verbose", action="store_true", help="show what the runs print")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="graft-presets-") as temporary:
        folder = Path(temporary)
        base = make_base(folder / "base", options.seed, options.verbose)
        found = {
            name: learn(folder / name, name, base, options.rounds, options.seed, options.verbose) for name in NAMES
        }
    Console(width=None if sys.stdout.isatty() else 140).print(table(found))
    rounded = {name: {key: round(value, 4) for key, value in numbers.items()} for name, numbers in found.items()}
    print(json.dumps({**rounded, "scale": SCALE, "rounds": options.rounds, "seed": options.seed}))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
