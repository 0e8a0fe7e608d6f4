"""The claims of docs/results/2026-11-27-claims.md about selection by influence and PPO, measured with today's code.

    python -m benchmarks.claims --quick        one seed of `civil`, the runs that the claims compare: minutes
    python -m benchmarks.claims                three tasks × five seeds, all variants: hours

A run is three rounds of about 1,536 completions (validation's included), 12 of a problem, from the first policy of its
seed. A claim is a difference that its authors expect to be above 0, paired by seed. It holds where the 95 % interval
(Student's t) lies above 0, is contradicted where it lies below, and is not confirmed where it contains 0; one seed has
no interval, and its verdict is the sign alone. Each run's result is a line of `--keep`, which is not computed again.

The last line of standard output is one JSON object. `claims`: claims × tasks that were computed; `claims_repeated`:
those with the verdict of the old table, or with one seed those whose difference has the sign of the old one;
`settled`, `settled_repeated`: the same of those whose old interval does not contain 0; `seconds`: of the command.
"""

import argparse
import json
import math
import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from benchmarks.claims.variants import BEST, BOTTOM, FEW, LARGER, MANY, NONE, OWN_VOTE, SOME, TASKS, TOP, VARIANTS, Run
from benchmarks.support.process_pool import pool_of, results_of
from benchmarks.support.short_runs import Figures, append_figures, make_start, params_of, read_figures, start_folder
from benchmarks.support.student_interval import interval
from flows.process import settings
from flows.process.exit_codes import exit_code
from tasks.artifacts import read_text
from tasks.core.terminal import make_table
from tests.support.workspace import PROJECT

OLD_TABLE = PROJECT / "docs" / "results" / "2026-11-27-claims.md"

QUICK = "civil"  # its runs take the fewest seconds

CLAIMS = {
    "Same-batch selection works in PPO": (("ppo", OWN_VOTE), ("ppo", NONE)),
    "Same-batch selection works in PPO at equal CPU seconds": (("ppo", OWN_VOTE), ("ppo", LARGER)),
    "so it is the fix for GRPO": (("grpo", OWN_VOTE), ("grpo", NONE)),
    "so it is the fix for GRPO at equal CPU seconds": (("grpo", OWN_VOTE), ("grpo", LARGER)),
    "The same batch is better than held-out validation": (("grpo", OWN_VOTE), ("grpo", SOME)),
    "16 validation samples are too few": (("grpo", MANY), ("grpo", FEW)),
    'Validation with good samples only says "produce these"': (("grpo", SOME), ("grpo", BEST)),
    "The sign is backwards": (("grpo", BOTTOM), ("grpo", TOP)),
    "A value function is what GRPO lacks": (("ppo", NONE), ("grpo", NONE)),
    "The variance of the rewards should fall": (("grpo", NONE),),
}
"""Sentence → the runs whose scores are compared, the better first; one: what the deviation of its rewards falls by."""


def runs_of(task: str, seed: int, quick: bool) -> list[Run]:
    """The first policy and all runs, or those alone that claims compare."""
    compared = {own for pair in CLAIMS.values() for own in pair}
    every = [(algorithm, variant) for algorithm in ("grpo", "ppo") for variant in VARIANTS]
    return [Run(task, *own, seed) for own in [("", ""), *every] if not quick or own in {("", ""), *compared}]


def compute_missing(wanted: Sequence[Run], keep: Path, processes: int) -> None:
    """Compute what is not in `keep`, `processes` runs at a time; each result is appended as it comes."""
    found = read_figures(keep, {run.digest: run for run in wanted})
    missing = [run for run in wanted if run not in found]
    if not (missing and processes):
        return
    with tempfile.TemporaryDirectory(prefix="graft-claims-") as temporary, pool_of(processes) as pool:
        starts = {start_folder(Path(temporary), run.start): params_of(run.start) for run in missing}
        for made in [pool.submit(make_start, *start) for start in starts.items()]:
            made.result()
        for run, figures in results_of(pool, partial(Run.compute, root=Path(temporary)), missing):
            append_figures(keep, run.digest, figures, **run._asdict())
            print(f"{' '.join(map(str, run))}: {figures}", file=sys.stderr, flush=True)


def differences(sentence: str, results: Mapping[Run, Figures], task: str, seeds: Sequence[int]) -> list[float]:
    """Of each seed that has the runs of a claim."""
    runs = [[results.get(Run(task, *own, seed)) for own in CLAIMS[sentence]] for seed in seeds]
    known = [[figures for figures in pair if figures] for pair in runs if all(pair)]
    return [pair[0]["score"] - pair[1]["score"] if pair[1:] else pair[0]["deviation_fall"] for pair in known]


def old_numbers(sentence: str) -> list[tuple[float, float]]:
    """Difference and half of the interval in the old table, of each task."""
    line = next(line for line in read_text(OLD_TABLE).splitlines() if line.startswith(f"| {sentence} |"))
    return [(float(mean.replace("−", "-")), float(half)) for mean, half in re.findall(r"([+−]\S+) ± ([\d.]+)", line)]


def verdict(mean: float, half: float) -> str:
    """Of a difference; of its sign alone, of −0.0 too, where there is no interval."""
    if math.isinf(half):
        return "positive" if math.copysign(1, mean) > 0 else "negative"
    return "holds" if mean > half else "contradicted" if mean < -half else "not confirmed"


def report(results: Mapping[Run, Figures], seeds: Sequence[int]) -> dict[str, int]:
    """Print the scores of the variants and the claims, now and in the old table, and count what is the same."""
    from rich.console import Console

    scores = make_table("task", "run", "seeds", "score", "selected", "CPU s")
    for task, algorithm, variant in dict.fromkeys(run[:3] for run in results):
        runs = [figures for run, figures in results.items() if run[:3] == (task, algorithm, variant)]
        score, kept, seconds = (
            fmean(run.get(name, math.nan) for run in runs) for name in ("score", "selected_share", "seconds")
        )
        name = f"{algorithm.upper()}, {variant}" if variant else "first policy"
        scores.add_row(task, name, str(len(runs)), f"{score:.3f}", *([f"{kept:.2f}", f"{seconds:.0f}"] * bool(variant)))
    claims, every, settled = make_table("claim", "task", "now", "2026-11-27", "same"), list[bool](), list[bool]()
    for sentence in CLAIMS:
        for task, old in zip(TASKS, old_numbers(sentence), strict=True):
            if found := differences(sentence, results, task, seeds):
                now = interval(found)
                is_same = verdict(*now) == verdict(old[0], math.inf if math.isinf(now[1]) else old[1])
                every.append(is_same)
                settled += [is_same] if verdict(*old) != "not confirmed" else []
                claims.add_row(sentence, task, _shown(*now), _shown(*old), "yes" if is_same else "no")
    Console(width=None if sys.stdout.isatty() else 140).print(scores, "", claims)
    counts = {"claims_repeated": sum(every), "claims": len(every)}
    return counts | {"settled_repeated": sum(settled), "settled": len(settled)}


def _shown(mean: float, half: float) -> str:
    return f"{mean:+.3f}{'' if math.isinf(half) else f' ± {half:.3f}'}, {verdict(mean, half)}"


def main(arguments: Sequence[str]) -> None:
    """Compute what is missing, print the tables, and as the last line the figures."""
    parser = argparse.ArgumentParser("python -m benchmarks.claims", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help=f"one seed of {QUICK}, the runs that the claims compare")
    parser.add_argument("--seeds", type=int, nargs="+", metavar="SEED")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, metavar="NAME")
    parser.add_argument("--processes", type=int, default=2, help="runs at a time; 0: only the tables")
    parser.add_argument("--keep", type=Path, default=Path(__file__).with_name("results.jsonl"), metavar="FILE")
    options = parser.parse_args(arguments)
    settings.set_environment()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    begun = time.monotonic()
    seeds = options.seeds or ([0] if options.quick else [0, 1, 2, 3, 4])
    tasks = options.tasks or ([QUICK] if options.quick else list(TASKS))
    wanted = [run for seed in seeds for task in tasks for run in runs_of(task, seed, options.quick)]
    compute_missing(wanted, options.keep, options.processes)
    counts = report(read_figures(options.keep, {run.digest: run for run in wanted}), seeds)
    print(json.dumps(counts | {"seconds": round(time.monotonic() - begun, 1)}))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
