"""Months of nights: what is served at their end, what is promoted by chance, forgotten, and told.

    python -m benchmarks.months                          simulated months: half a minute
    python -m benchmarks.months --seeds 0 1 2 3 4        real months of a small project, too: an hour of CPU

Simulated (benchmarks/months/simulation.py): `false_promotion_month`, the share of months without any gain in which
something is promoted, and `served_small_gains`, the accuracy served after thirty nights of +0.008 each from 0.5.

`tested_on_trained`: test problems that a lineage had learnt from, over random histories of a project whose files slide,
grow, come and go, and whose sizes and seed are changed.

Real (benchmarks/months/nights.py), of each seed; results are lines of `--keep`, which are not computed again:

- `served_month`: twelve nights with new problems, by the shipped rules and by those before them (from the champion, the
  gate alone), which get as many nights, and further ones until they have spent as many CPU seconds: accuracy of the
  served policy on new problems, difference and 95 % interval;
- `forgotten`: ten nights whose problems come from two sources in turn, with `promotion.keep` and `problems.replay`, and
  without: what the served policy has at most lost of its best accuracy on either source;
- `alarms_false`: alerts of these nights about training and test set; `alarms_missed`: planted faults without theirs.

The last line of standard output is one JSON object.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from benchmarks.months.jobs import ALTERNATING, FAULTS, Job
from benchmarks.months.simulation import report
from benchmarks.support.process_pool import pool_of, results_of
from benchmarks.support.short_runs import Figures, append_figures, read_figures
from benchmarks.support.student_interval import interval
from flows.process import settings
from flows.process.exit_codes import exit_code
from tests.support.histories import live


def compute_missing(jobs: Sequence[Job], keep: Path, processes: int) -> dict[Job, Figures]:
    """The figures of the jobs; those that `keep` lacks are computed and appended as they come."""
    by_digest = {job.digest: job for job in jobs}
    missing = [job for job in jobs if job not in read_figures(keep, by_digest)]
    if missing and processes:
        with pool_of(processes) as pool:
            for job, figures in results_of(pool, Job.compute, missing):
                append_figures(keep, job.digest, figures, **job._asdict())
                print(f"{job.what} {job.seed}: {figures}", file=sys.stderr, flush=True)
    return read_figures(keep, by_digest)


def summary(results: Mapping[Job, Figures]) -> Figures:
    """Print the figures of each seed, and return theirs over the seeds."""
    for job, figures in results.items():
        print(f"{job.what:18}{job.seed:3}  " + ", ".join(f"{name} {value:.3f}" for name, value in figures.items()))
    of = {what: [figures for job, figures in results.items() if job.what == what] for what, _ in results}
    months, alternating = of.get("served", []), of.get("forgotten", [])
    found: Figures = {}
    if months:
        mean, half = interval([figures["served"] - figures["before"] for figures in months])
        found |= {"served_month": mean, "served_month_low": mean - half}
        found |= {name: fmean(figures[name] for figures in months) for name in ("served", "before", "first")}
    if alternating:
        found |= {"forgotten": max(figures["with"] for figures in alternating)}
        found |= {"forgotten_without": max(figures["without"] for figures in alternating)}
    healthy = [figures["alarms"] for figures in months] + [
        figures[f"{name}_alarms"] for figures in alternating for name in ("with", "without")
    ]
    found |= {
        "alarms_false": sum(healthy),
        "healthy_nights": sum(f["nights"] for f in months) + 2 * ALTERNATING * len(alternating),
    }
    planted = [figures["told"] for kind in FAULTS for figures in of.get(kind, [])]
    return found | {"alarms_missed": len(planted) - sum(planted), "planted": len(planted)}


def main(arguments: Sequence[str]) -> None:
    """Compute, print the tables, and as the last line the figures."""
    parser = argparse.ArgumentParser("python -m benchmarks.months", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--months", type=int, default=400, help="simulated months of each rule; 0: none")
    parser.add_argument("--histories", type=int, default=1000, help="random histories of a project")
    parser.add_argument("--seeds", type=int, nargs="+", default=[], metavar="SEED", help="of real months")
    parser.add_argument("--only", choices=["served", "forgotten", *FAULTS], nargs="+", metavar="WHAT")
    parser.add_argument("--processes", type=int, default=2, help="real months at a time; 0: only the tables")
    parser.add_argument("--keep", type=Path, default=Path(__file__).with_name("results.jsonl"), metavar="FILE")
    options = parser.parse_args(arguments)
    settings.set_environment()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    figures = report(options.months) if options.months else {}
    if options.histories:
        figures["tested_on_trained"] = sum(
            live(number, remembers=True).tested_on_trained for number in range(options.histories)
        )
    if options.seeds:
        kinds = options.only or ["served", "forgotten", *FAULTS]
        jobs = [Job(what, seed) for what in kinds for seed in options.seeds]
        figures |= summary(compute_missing(jobs, options.keep.absolute(), options.processes))
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
