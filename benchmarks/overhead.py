"""Cost of Prefect, DVC and MLflow around the stages, in a computed run and in a cached one.

    python -m benchmarks.overhead              # one run of the embedded default first: five minutes
    python -m benchmarks.overhead --small      # a small run instead; its share of orchestration says nothing

The orchestration of the default run is the wall clock of the command minus the seconds of the stages' functions. A flow
of one empty task is measured for comparison, as Prefect's own part.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.support.workspace import dvc, environment, graft, make_workspace
from flows.prefect_runs.temporary_server import TemporaryServer
from flows.process.exit_codes import exit_code
from flows.process.settings import NO_TELEMETRY, PREFECT
from flows.stages.durations import last_seconds
from tasks.errors import GraftError
from tasks.layout import Layout

if TYPE_CHECKING:
    from rich.table import Table

SMALL = [
    *["problems.train=12", "problems.validation=4", "problems.test=8", "bootstrap.epochs=2", "search.samples=2"],
    *["search.simulations=4", "update.group_size=4", "update.epochs=1"],
]
EMPTY_FLOW = "from prefect import flow, task\nflow(lambda: task(lambda: None)())()"


def measure(root: Path, assignments: Sequence[str], turns: int) -> dict[str, float]:
    """Seconds of each command, medians of `turns` but of the first run; and where that one spends its time."""
    make_workspace(root, assignments)
    processor = _processor_seconds()
    first = _seconds(lambda: _demand(graft(root, "retrain")))
    processor = _processor_seconds() - processor
    files = Layout(root).seconds("").parent.glob("*.json")
    stages = {path.stem: last_seconds(Layout(root), path.stem) or 0.0 for path in files}
    own = sum(stages.values())
    _demand(dvc(root, "repro"))  # DVC's own memory of the files' hashes
    figures = {
        "default_run_seconds": first,
        "stages_own_seconds": own,
        "orchestration_share": (first - own) / first,
        "select_to_update": _stage_seconds(stages, "select") / _stage_seconds(stages, "update"),
        "cores_busy": processor / first,
        "noop_repro_seconds": _median(turns, lambda: _demand(dvc(root, "repro"))),
        "cached_retrain_seconds_ephemeral": _median(turns, lambda: _demand(graft(root, "retrain"))),
        "empty_flow_seconds_ephemeral": _median(turns, lambda: _demand(_empty_flow(root))),
    }
    with TemporaryServer(root.with_name("server"), part="all") as url:  # the one of `graft serve`
        _demand(graft(root, "retrain", PREFECT_API_URL=url))
        figures |= {
            "cached_retrain_seconds_server": _median(
                turns, lambda: _demand(graft(root, "retrain", PREFECT_API_URL=url))
            ),
            "empty_flow_seconds_server": _median(turns, lambda: _demand(_empty_flow(root, PREFECT_API_URL=url))),
        }
    return figures


def _stage_seconds(stages: dict[str, float], name: str) -> float:
    """Seconds of a stage in all rounds."""
    return sum(seconds for stage_id, seconds in stages.items() if stage_id.startswith(f"{name}@"))


def _processor_seconds() -> float:
    """Processor time of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _empty_flow(root: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    own = {"PREFECT_HOME": str(root / ".graft" / "prefect"), **NO_TELEMETRY, **PREFECT}
    command = [sys.executable, "-c", EMPTY_FLOW]
    return subprocess.run(command, cwd=root, env=environment(root) | own | more, capture_output=True, text=True)


def _demand(ended: "subprocess.CompletedProcess[str]") -> None:
    if ended.returncode:
        raise GraftError(f"{' '.join(ended.args)}: ended with {ended.returncode}: {ended.stderr.strip()[-500:]}")


def _median(turns: int, action: Callable[[], None]) -> float:
    return statistics.median(_seconds(action) for _ in range(turns))


def _seconds(action: Callable[[], None]) -> float:
    started = time.monotonic()
    action()
    return time.monotonic() - started


ROWS = {
    "graft retrain, everything computed": "default_run_seconds",
    "  of it the stages' own work": "stages_own_seconds",
    "graft retrain, all cached, temporary server": "cached_retrain_seconds_ephemeral",
    "  a flow of one empty task": "empty_flow_seconds_ephemeral",
    "graft retrain, all cached, own server": "cached_retrain_seconds_server",
    "  a flow of one empty task, own server": "empty_flow_seconds_server",
    "dvc repro, nothing to do": "noop_repro_seconds",
}


def table(figures: dict[str, float]) -> "Table":
    """A row for each command."""
    from rich.table import Table

    share = 100 * figures["orchestration_share"]
    made = Table(title=f"orchestration: {share:.1f} % of the first run", title_justify="left")
    made.add_column("command")
    made.add_column("seconds", justify="right")
    for title, name in ROWS.items():
        made.add_row(title, f"{figures[name]:.1f}")
    made.add_row("select / update of the first run", f"{figures['select_to_update']:.2f}")
    made.add_row("cores that the first run kept busy", f"{figures['cores_busy']:.2f}")
    return made


def main(arguments: Sequence[str]) -> None:
    """Run, print the table, and as the last line the figures."""
    from rich.console import Console

    parser = argparse.ArgumentParser("python -m benchmarks.overhead", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--small", action="store_true", help="a small run in the place of the embedded default")
    parser.add_argument("--turns", type=int, default=3, help="how often each command is timed")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="graft-overhead-") as temporary:
        figures = measure(Path(temporary) / "project", SMALL if options.small else [], options.turns)
    Console(width=None if sys.stdout.isatty() else 100).print(table(figures))
    print(json.dumps({**{name: round(value, 3) for name, value in figures.items()}, "small": options.small}))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
