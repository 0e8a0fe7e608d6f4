"""PPO and GRPO, each with and without selection by influence, in three environments: the claims about them, measured.

    python -m benchmarks.ppo
    python -m benchmarks.ppo --seeds 0 --environments civil      what is missing of a part
    python -m benchmarks.ppo --quick                             no further runs of the table; the other figures

A run is three rounds of about 1,536 completions (validation's included) from the first policy of its seed. Its score is
the share of right samples (`workflow`: the built-in problems), of legal moves (`chess`) or one minus the toxicity
(`civil`) of its last policy. Differences are paired by seed, with a 95 % interval (Student's t); `seconds` are of CPU.
The result of each run is a line of --results, and what stands there is not computed again: the command can be ended at
any time.

The last line of standard output is one JSON object: `oracle_max_error`, the largest difference of rewards, advantages,
returns, losses and gradients from TRL 0.11.4's, null where that cannot be installed; `civil_toxicity_ratio` and
`civil_distinct_ratio`, after / before, of the preset `civil`; `ppo_workflow_gain`, of the runs of PPO without selection
over their first policies; `claims_settled`, the share of the claims with five seeds in each environment; `minutes`.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from benchmarks.ppo.cells import ALGORITHMS, NONE, SELECTIONS, SETTINGS, Cell, cells, compute_cell, digest
from benchmarks.ppo.claims import CLAIMS, Results, gain, score, seed_differences, settled_share, verdict
from benchmarks.ppo.quick_figures import civil_ratios, oracle_max_error
from benchmarks.support.short_runs import append_figures, read_figures
from benchmarks.support.student_interval import interval
from flows.process import settings
from flows.process.exit_codes import exit_code
from tasks.core.terminal import make_table


def compute(wanted: Sequence[Cell], results: Path, folder: Path) -> dict[Cell, dict[str, float]]:
    """The figures of all runs; what is missing is computed and appended as it comes."""
    names = {digest(cell): cell for cell in wanted}
    found = read_figures(results, names)
    for name, cell in names.items():
        if cell not in found:
            environment, algorithm, selection, seed = cell
            found[cell] = compute_cell(folder / f"{environment}-{seed}", cell)
            labels = {"environment": environment, "algorithm": algorithm, "selection": selection, "seed": seed}
            append_figures(results, name, found[cell], **labels)
            print(f"seed {seed} {environment} {algorithm} {selection}: {found[cell]}", file=sys.stderr)
    return found


def print_scores(environment: str, results: Results, seeds: Sequence[int]) -> None:
    """A row a run: the score, and its difference to no selection."""
    from rich.console import Console

    first = [own for seed in seeds if (own := score(results, (environment, "", "", seed))) is not None]
    if not first:
        return
    table = make_table(environment, "seeds", "score", "- no selection", "selected", "CPU s", right=True)
    table.add_row("first policy", str(len(first)), f"{fmean(first):.3f}", "", "", "")
    for algorithm in ALGORITHMS:
        for name in SELECTIONS:
            runs = [results[cell] for seed in seeds if (cell := (environment, algorithm, name, seed)) in results]
            if not runs:
                continue
            scores = [SETTINGS[environment].sign * run[SETTINGS[environment].metric] for run in runs]
            paired = seed_differences(gain((algorithm, name), (algorithm, NONE)), results, environment, seeds)
            against = _shown(paired) if name != NONE and paired else ""
            kept, seconds = (fmean(run[key] for run in runs) for key in ("selected_share", "seconds"))
            row = (f"{algorithm}, {name}", str(len(runs)), f"{fmean(scores):.3f}", against)
            table.add_row(*row, f"{kept:.2f}", f"{seconds:.0f}")
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def print_claims(results: Results, seeds: Sequence[int]) -> None:
    """A row a claim: its difference and verdict in each environment."""
    from rich.console import Console

    table = make_table("claim, and what is measured", *SETTINGS)
    for claim in CLAIMS:
        found = [seed_differences(claim.difference, results, environment, seeds) for environment in SETTINGS]
        shown = (f"{_shown(own)}\n{verdict(own)}" if own else "open" for own in found)
        table.add_row(f"{claim.sentence}:\n{claim.measured}", *shown)
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def _shown(found: Sequence[float]) -> str:
    mean, half = interval(found)
    return f"{mean:+.3f}" + (f" ± {half:.3f}" if len(found) > 1 else "")


def main(arguments: Sequence[str]) -> None:
    """Compute what is missing, print the tables, and as the last line the figures."""
    options = _options(arguments)
    settings.set_environment()
    begun = time.monotonic()
    everything = cells(list(SETTINGS), options.seeds)
    wanted = [] if options.quick else cells(options.environments, options.seeds)
    with tempfile.TemporaryDirectory(prefix="graft-ppo-") as temporary:
        compute(wanted, options.results, options.keep or Path(temporary))
        results = read_figures(options.results, {digest(cell): cell for cell in everything})
        for environment in SETTINGS:
            print_scores(environment, results, options.seeds)
        print_claims(results, options.seeds)
        gains = seed_differences(gain(("ppo", NONE), ("", "")), results, "workflow", options.seeds)
        figures: dict[str, float | None] = {
            "oracle_max_error": oracle_max_error(Path(temporary)),
            **civil_ratios(Path(temporary)),
            "ppo_workflow_gain": round(fmean(gains), 4) if gains else None,
            "claims_settled": round(settled_share(results, list(SETTINGS), options.seeds), 4),
            "minutes": round((time.monotonic() - begun) / 60, 1),
        }
    print(json.dumps(figures))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.ppo", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="compute no further runs of the tables")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)), metavar="SEED")
    parser.add_argument("--environments", nargs="+", choices=SETTINGS, default=list(SETTINGS), metavar="NAME")
    parser.add_argument("--results", type=Path, default=Path(__file__).with_name("results.jsonl"), metavar="FILE")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the first policies in this folder")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
