"""A month of nights: retraining on a schedule, through all that happens to machines, servers and people.

    python -m benchmarks.nights    # ten minutes; a C compiler, and mounting for the disk that is full

30 nights with a run and two weeks of downtime of a tiny project, whose stages hash what they read, under `graft serve`
with Prefect's and MLflow's servers on loopback. The time of day of all of them is set to the next night. Each night
is compared with `plan.py`: how many runs there were, what came of them, who is champion, which alerts were sent.
`overhead_share`: what a scheduled run takes more than `graft retrain` by hand, of the seconds of the default run.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.nights.clock import Clock
from benchmarks.nights.month import ZONE, Figures, Month
from benchmarks.nights.plan import NIGHTS
from flows.process.exit_codes import exit_code
from tests.support.webhooks import webhook

DISK = 48
"""MB of the project's disk."""

DEFAULT_RUN = 190.0
"""Seconds of the stages of the default run on two cores (docs/results)."""


@contextmanager
def disk(folder: Path) -> Iterator[Path | None]:
    """A small disk for the project; None where mounting is not permitted."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK}m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        print("no mount here: that night has a broken file in place of a full disk", file=sys.stderr)
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def numbers(figures: Figures, seconds: float) -> dict[str, float]:
    """The figures by the names that they are reported under."""
    return {
        "nights_right": figures.right,
        "nights": len(NIGHTS),
        "runs_after_downtime": figures.after_downtime,
        "double_runs": figures.double,
        "alerts_missed": figures.alerts_missed,
        "alerts_false": figures.alerts_false,
        "alert_seconds": round(figures.alert_seconds, 1),
        "lost_results": figures.lost,
        "growth_mb_per_night": round(sum(figures.growth.values()), 2),
        "overhead_share": round((figures.seconds - figures.by_hand) / DEFAULT_RUN, 3),
        "seconds": round(seconds),
    }


def main(arguments: Sequence[str]) -> None:
    argparse.ArgumentParser("python -m benchmarks.nights", description=(__doc__ or "").split("\n")[0]).parse_args(
        arguments
    )
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="graft-nights-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        clock = Clock(folder, ZONE)
        with disk(folder / "disk") as small, webhook(now=clock.now) as alerts:
            figures = Month(folder, small, clock, alerts).run(NIGHTS)
    result = numbers(figures, time.monotonic() - begun)
    for place, size in figures.growth.items():
        print(f"{size:8.3f} MB per night  {place}")
    for key, value in result.items():
        print(f"{key:<20} {value:g}")
    print(json.dumps(result))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
