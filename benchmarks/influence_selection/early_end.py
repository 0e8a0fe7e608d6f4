"""When the measurement of influence ends early, with rewards that err and with exact ones.

    python -m benchmarks.influence_selection.early_end --workspaces FOLDER

At the first policy of each seed, a round of PROBLEMS problems of GROUP completions has the rewards of a condition
(benchmarks/influence_selection/conditions.py), and is measured as the stage `select` does, then whole. A cell of
the table has the share of the seeds whose measurement ends early, the mean share of the samples that is measured, and
the mean share that control drops where it is whole. The last line of standard output is one JSON object: with exact
rewards and the most trusted completions, `ended_exact` and `measured_exact`, the first two of a cell; and `missed`, of
the measurements whose control drops at least DROPPED of the samples, the share that ends early.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, get_args
from unittest.mock import patch

from benchmarks.influence_selection.conditions import Condition
from benchmarks.influence_selection.first_round import first_round
from benchmarks.influence_selection.training_run import Job
from benchmarks.influence_selection.variants import Variant
from benchmarks.selection import folder_of, prepare
from flows.process import settings
from flows.process.exit_codes import exit_code
from tasks.select import sequential_test

PROBLEMS = 280
TRUSTED = (256, 1024)
DROPPED = 0.05


class Measured(NamedTuple):
    """The share of the samples that is measured, and of those with a signal that control drops where all are."""

    share: float
    dropped: float

    @property
    def ended(self) -> bool:
        """Whether the measurement ended early."""
        return self.share < 1


def measure_round(folder: Path, condition: Condition, trusted: int, seed: int) -> Measured:
    """Measure a round in both ways."""
    variant = Variant("positive", trusted, similarity="local", control=True)
    searched = first_round(Job(folder, seed, condition, "", variant, 1, PROBLEMS))
    share = searched.select().metrics["measured_share"]
    with patch.object(sequential_test, "PARTS", 1):  # nothing ends before its only part
        return Measured(share, searched.select().metrics["fault_share"])


def main(arguments: Sequence[str]) -> None:
    """Measure, print the table, and as the last line the figures."""
    from rich.console import Console
    from rich.table import Table

    options = _options(arguments)
    settings.set_environment()
    found: dict[tuple[Condition, int], list[Measured]] = {}
    with tempfile.TemporaryDirectory(prefix="graft-early-end-") as temporary:
        for seed in options.seeds:
            folder = prepare(folder_of(options.workspaces or Path(temporary), seed), seed)
            for condition in get_args(Condition):
                for trusted in TRUSTED:
                    one = measure_round(folder, condition, trusted, seed)
                    found.setdefault((condition, trusted), []).append(one)
                    print(f"{seed} {condition} {trusted}: {one.share:.3f} {one.dropped:.3f}", file=sys.stderr)
    table = Table(title="early ends, share measured, share dropped", title_justify="left")
    for column in ("", *(f"{trusted} trusted" for trusted in TRUSTED)):
        table.add_column(column)
    for condition in get_args(Condition):
        cells = [found[condition, trusted] for trusted in TRUSTED]
        table.add_row(condition, *map(cell, cells))
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    exact = found["clean", TRUSTED[-1]]
    erring = [one for rounds in found.values() for one in rounds if one.dropped >= DROPPED]
    figures = {
        "ended_exact": round(fmean(one.ended for one in exact), 4),
        "measured_exact": round(fmean(one.share for one in exact), 4),
        "missed": round(fmean(one.ended for one in erring), 4) if erring else None,
    }
    print(json.dumps(figures))


def cell(rounds: Sequence[Measured]) -> str:
    """The three means of a cell."""
    ended, shares = fmean(one.ended for one in rounds), fmean(one.share for one in rounds)
    return f"{ended:.2f}, {shares:.2f}, {fmean(one.dropped for one in rounds):.2f}"


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    description = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser("python -m benchmarks.influence_selection.early_end", description=description)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(8)), metavar="SEED")
    parser.add_argument("--workspaces", type=Path, metavar="FOLDER", help="where first policies stay")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
