"""Interactions of params: beta and batch size × learning rate, and temperature × advantages, on chess endings.

    python -m benchmarks.interactions
    python -m benchmarks.interactions --quick --tables "batch size × learning rate"

Each cell is a short run of the preset `chess` (task P alone, two rounds) from the first policy of its seed, with the
two params of its row and column; the table has the means over the seeds. With one seed a difference of two cells below
0.03 may be chance. The result of each cell is a line of --results, and what stands there is not computed again: the
command can be ended at any time. With --quick a table has its first and last row and column alone. The last line of
standard output is one JSON object.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from benchmarks.interactions.cells import assignments_of, compute_cell, figures_of_start, params_of
from benchmarks.support import short_runs
from benchmarks.support.short_runs import Figures, append_figures, make_start, read_figures
from flows.process import settings
from flows.process.exit_codes import exit_code
from tasks.core.terminal import make_table

Axis = tuple[str, tuple[str, ...]]
"""A param and its values."""

TABLES: dict[str, tuple[Axis, Axis]] = {
    "beta × learning rate": (
        ("update.beta", ("0.0", "0.03", "0.3")),
        ("update.learning_rate", ("1e-4", "4e-4", "1.6e-3")),
    ),
    "batch size × learning rate": (
        ("update.prompts_per_step", ("4", "12", "36")),
        ("update.learning_rate", ("1e-4", "4e-4", "1.6e-3")),
    ),
    "temperature × advantages": (
        ("search.temperature", ("0.7", "1.0", "1.4")),
        ("update.advantages", ("none", "group", "batch", "global")),
    ),
}
"""Title → rows and columns."""

SHOWN = {
    "p_legal/sampled": "legal moves, sampled",
    "p_best_move/sampled": "best move, sampled",
    "p_legal/greedy": "legal moves, greedy",
    "kl": "KL of a token in round 2",
}
REVISION = 1
"""Raised with each change of code or of a shipped param after which a cell gives something else."""

START = ""
"""The assignments of the first policy itself."""

Results = dict[tuple[str, int], Figures]
"""(assignments of a cell, seed) → figures."""


def axes_of(title: str, quick: bool) -> tuple[Axis, Axis]:
    """Rows and columns of a table; of each the first and the last alone if `quick`."""
    (row, rows), (column, columns) = TABLES[title]
    return ((row, rows[:: len(rows) - 1]), (column, columns[:: len(columns) - 1])) if quick else TABLES[title]


def cells_of(title: str, quick: bool = False) -> list[str]:
    """The assignments of a table's cells, row by row."""
    (row, rows), (column, columns) = axes_of(title, quick)
    return [f"{row}={first} {column}={second}" for first in rows for second in columns]


def digest(cell: str, seed: int) -> str:
    """The name of a cell in the results."""
    return short_runs.digest(assignments_of(seed, cell), REVISION, cell == START)


def read_results(path: Path, wanted: Sequence[tuple[str, int]]) -> Results:
    """The figures of those cells that are in the file. Raises GraftError where a line is no JSON object."""
    return read_figures(path, {digest(*cell): cell for cell in wanted})


def mean(results: Results, cell: str, name: str) -> float:
    """Over the seeds."""
    return fmean(figures[name] for (other, _), figures in results.items() if other == cell)


def print_tables(titles: Sequence[str], quick: bool, results: Results) -> None:
    """A table for each figure of each title, rows × columns; without the KL where none was measured."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 120)
    for title in titles:
        (row, rows), (column, columns) = axes_of(title, quick)
        for name, words in SHOWN.items():
            if not any(mean(results, cell, name) for cell in cells_of(title, quick)):
                continue
            start = "" if name == "kl" else f" (before: {mean(results, START, name):.3f})"
            console.print(f"{title}: {words}{start}")
            table = make_table(f"{row} \\ {column}", *columns, right=True)
            for first in rows:
                cells = (f"{row}={first} {column}={second}" for second in columns)
                table.add_row(first, *(f"{mean(results, cell, name):.3f}" for cell in cells))
            console.print(table)
            console.print()


def compute(folder: Path, cell: str, seed: int) -> Figures:
    """The figures of a cell, or of the first policy."""
    params, start = params_of(seed, cell), folder / f"seed-{seed}"
    make_start(start, params_of(seed, START))
    return compute_cell(start, params) if cell != START else figures_of_start(start, params)


def main(arguments: Sequence[str]) -> None:
    """Compute what is missing, print the tables, and as the last line the figures."""
    parser = argparse.ArgumentParser("python -m benchmarks.interactions", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], metavar="SEED")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=[*TABLES], metavar="TITLE")
    parser.add_argument("--quick", action="store_true", help="the first and last row and column of each table alone")
    parser.add_argument("--results", type=Path, default=Path(__file__).with_name("results.jsonl"), metavar="FILE")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the first policies in this folder")
    options = parser.parse_args(arguments)
    settings.set_environment()
    cells = [START, *(cell for title in options.tables for cell in cells_of(title, options.quick))]
    wanted = [(cell, seed) for seed in options.seeds for cell in cells]
    results = read_results(options.results, wanted)
    with tempfile.TemporaryDirectory(prefix="graft-interactions-") as temporary:
        for cell, seed in (each for each in wanted if each not in results):
            figures = compute(options.keep or Path(temporary), cell, seed)
            results[cell, seed] = figures
            append_figures(options.results, digest(cell, seed), figures, cell=cell, seed=seed)
            print(f"seed {seed} {cell or 'first policy'}: {figures}", file=sys.stderr)
    print_tables(options.tables, options.quick, results)
    names = {cell: results[cell, options.seeds[0]] for cell in cells}
    means = {cell or "first": {name: round(mean(results, cell, name), 4) for name in names[cell]} for cell in cells}
    print(json.dumps({**means, "seeds": options.seeds}))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
