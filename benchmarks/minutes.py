"""Minutes that `graft retrain --minutes N` takes, and what the policy learns in them.

    python -m benchmarks.minutes           # 3, 6 and 15 minutes of the default, each from nothing: 25 in all
    python -m benchmarks.minutes 4 10      # others

`error` is the largest relative difference of the minutes taken from those asked for. To be run on idle cores. The last
line is one JSON object.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.support.workspace import graft, make_workspace
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.file import load_params


def measure(minutes: float, seed: int) -> dict[str, float]:
    """A run of `minutes` in a new workspace: the minutes taken, its size, and pass@1 after it."""
    with tempfile.TemporaryDirectory(prefix="graft-minutes-") as name:
        root = make_workspace(Path(name) / "project", [f"seed={seed}"])
        started = time.perf_counter()
        ended = graft(root, "retrain", "--minutes", f"{minutes:g}")
        taken = (time.perf_counter() - started) / 60
        if ended.returncode:
            raise GraftError(f"graft retrain --minutes {minutes:g}: {ended.stderr.strip()}")
        layout, params = Layout(root), load_params(root / "params.yaml")
        passed = [json.loads(layout.metrics(f"evaluate@{side}").read_text())["pass_at_1_greedy"] for side in SIDES]
        return {
            "asked": minutes,
            "said": float(next(line for line in ended.stdout.splitlines() if " minutes on this " in line).split()[0]),
            "taken": taken,
            "problems": params.problems.train,
            "rounds": params.rounds.last,
            "simulations": params.search.simulations,
            **dict(zip(SIDES, passed, strict=True)),
        }


SIDES = ("before", "after")


def main() -> None:
    """Print a row for each number of minutes, then the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minutes", nargs="*", type=float, default=[3, 6, 15], metavar="MINUTES", help="of each run")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = [measure(minutes, options.seed) for minutes in options.minutes]
    table = Table(*rows[0], title="graft retrain --minutes, pass@1 greedy")
    for row in rows:
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()))
    Console().print(table)
    figures = {"error": max(abs(row["taken"] / row["asked"] - 1) for row in rows)}
    figures |= {f"taken_{row['asked']:g}": row["taken"] for row in rows}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
