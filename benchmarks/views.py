"""The windows of MLflow, Prefect and DVC on a project: what a person finds there after two small runs and a repeat.

    python -m benchmarks.views
    python -m benchmarks.views --screenshots docs/views    # what the table says, as pictures

One run of two rounds, the same command again, and a run with another learning rate; then `graft ui` is opened in
Chromium. `overhead_share` compares a run on few problems, of as many stages as the built-in default, with and without
MLflow, by turns; the difference is a share of DEFAULT_SECONDS. The last line of standard output is one JSON
object.
"""

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from benchmarks.overhead import SMALL
from benchmarks.support.workspace import clone_workspace, dvc, environment, graft, make_workspace
from flows.process.exit_codes import exit_code
from tasks.errors import GraftError
from tasks.tracking.store import store_lock

if TYPE_CHECKING:
    from rich.table import Table

DEFAULT_SECONDS = 214.0
"""Of a run with the shipped params, seed 0, two idle cores (docs/results/2026-11-27-benchmarks.md, 2026-11-25)."""

TWO_ROUNDS = [
    *["rounds=2", "environment.operations=1", "problems.train=64", "problems.validation=4", "problems.test=12"],
    *["bootstrap.epochs=20", "search.samples=4", "search.simulations=8", "update.group_size=8", "update.epochs=30"],
    *["influence.selection=positive", "influence.n=4", "influence.completions=4"],
]
"""Small, but the policy solves some problems, so that updates have steps."""

CHROMIUM = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)
WIDE = "10000"
"""Columns of a terminal in which DVC folds no table; its pager cuts what a narrower one does not show."""

PATIENCE = 30_000
"""Milliseconds that a page has to fill itself."""


def measure(folder: Path, screenshots: Path | None, turns: int) -> dict[str, float]:
    """All figures, from new workspaces in `folder`."""
    root = make_workspace(folder / "project", TWO_ROUNDS)
    figures: dict[str, float] = {"live_points_before_end": _run_and_watch(root)}
    _demand(graft(root, "retrain"))
    _demand(dvc(root, "exp", "save", "--name", "first"))
    _demand(graft(root, "retrain", "-S", "update.learning_rate=0.0005"))
    figures |= _mlflow_figures(root) | _dvc_figures(root) | _pages(root, screenshots)
    return figures | {"overhead_share": overhead_share(folder, turns)}


def overhead_share(folder: Path, turns: int) -> float:
    """What MLflow adds to a run of as many stages as the default's, as a share of the default's seconds."""
    plain = make_workspace(folder / "plain", SMALL)
    seconds: dict[str, list[float]] = {"sqlite:///mlflow.db": [], "": []}
    for turn in range(turns):
        for number, (uri, taken) in enumerate(seconds.items()):
            root = clone_workspace(folder / f"turn-{turn}-{number}", plain)
            began = time.monotonic()
            _demand(graft(root, "retrain", "-S", f"machine.tracking.uri={uri}"))
            taken.append(time.monotonic() - began)
            shutil.rmtree(root)
    tracked, untracked = map(statistics.median, seconds.values())
    return (tracked - untracked) / DEFAULT_SECONDS


def table_columns(text: str) -> list[str]:
    """The titles of a table of `dvc metrics show`, without that of the file."""
    return text.splitlines()[0].split()[1:]


def headline_width(text: str, last: str) -> int:
    """Characters of `dvc exp show` up to the end of the column `last`: what comes after it are the params."""
    head = next(line for line in text.splitlines() if last in line)
    return head.index(last) + len(last)


def _run_and_watch(root: Path) -> int:
    """Run the chain; returns the most steps of an update that MLflow had while the stage was running."""
    over, most = threading.Event(), [0]

    def watch() -> None:
        while not over.wait(0.5):
            if (root / "mlflow.db").exists():
                most.append(_running_steps(root))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        _demand(graft(root, "retrain"))
    finally:
        over.set()
        watcher.join()
    return max(most)


def _running_steps(root: Path) -> int:
    from mlflow.exceptions import MlflowException

    try:
        client, experiment = _store(root)
        running = client.search_runs([experiment], "attributes.status = 'RUNNING'")
        live = [run.info.run_id for run in running if run.info.run_name.startswith("update@")]
        return max((len(client.get_metric_history(run_id, "step/loss")) for run_id in live), default=0)
    except (MlflowException, AttributeError):  # the store is being created
        return 0


def _store(root: Path) -> tuple[Any, str]:
    from mlflow import MlflowClient

    uri = f"sqlite:///{root}/mlflow.db"
    with store_lock(uri):  # the run may be creating it
        client = MlflowClient(uri)
    return client, str(client.get_experiment_by_name("graft").experiment_id)


def _parents(root: Path) -> list[Any]:
    client, experiment = _store(root)
    runs = client.search_runs([experiment], order_by=["start_time ASC"])
    return [run for run in runs if "mlflow.parentRunId" not in run.data.tags]


def _mlflow_figures(root: Path) -> dict[str, float]:
    last = _parents(root)[-1]
    return {"mlflow_parent_metrics": len(last.data.metrics)}


def _dvc_figures(root: Path) -> dict[str, float]:
    shown = _demand(dvc(root, "exp", "show", "--no-pager", COLUMNS=WIDE))
    columns = table_columns(_demand(dvc(root, "metrics", "show")))
    return {"dvc_metric_columns": len(columns), "exp_show_width": headline_width(shown, columns[-1])}


def _pages(root: Path, screenshots: Path | None) -> dict[str, float]:
    """Open the addresses of `graft ui`, and compare the names of the runs."""
    process = subprocess.Popen(
        [".venv/bin/python", "-m", "flows.cli.main", "ui"],
        cwd=root,
        env=environment(root),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline() for _ in range(4)]
        addresses = {line.split()[0]: line.split()[1] for line in lines[1:]}
        names = [run.info.run_name for run in _parents(root)]
        seen = _dump(addresses["MLflow"])
        server = addresses["Prefect"].removesuffix("/runs")
        flow_runs = httpx.post(f"{server}/api/flow_runs/filter", json={}, timeout=30).json()
        history = _demand(graft(root, "history"))
        if screenshots:
            screenshots.mkdir(parents=True, exist_ok=True)
            for name, address in addresses.items():
                _screenshot(address, screenshots / f"{name.lower()}.png")
    finally:
        process.terminate()
        process.wait(60)
    everywhere = {run["name"] for run in flow_runs} >= {*names} and all(name in history for name in names)
    return {
        "mlflow_opens_on_runs": float(all(_escaped(name) in seen for name in names)),
        "names_equal": float(everywhere),
    }


def _escaped(name: str) -> str:
    """As in a page's source."""
    return name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _chromium(*options: str) -> str:
    if CHROMIUM is None:
        raise GraftError("benchmark: no browser; make browser installs one")
    with tempfile.TemporaryDirectory() as profile:
        common = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
        ]
        command = [CHROMIUM, *common, f"--user-data-dir={profile}", f"--virtual-time-budget={PATIENCE}", *options]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout


def _dump(address: str) -> str:
    """The page's source once it has filled itself."""
    return _chromium("--window-size=1600,900", "--dump-dom", address)


def _screenshot(address: str, file: Path) -> None:
    _chromium(
        "--window-size=1900,800",
        "--hide-scrollbars",
        "--force-prefers-reduced-motion",
        f"--screenshot={file.absolute()}",
        address,
    )


def _demand(ended: "subprocess.CompletedProcess[str]") -> str:
    if ended.returncode:
        raise GraftError(f"{' '.join(ended.args)}: ended with {ended.returncode}: {ended.stderr.strip()[-500:]}")
    return re.sub(r"\x1b\[[0-9;]*m", "", ended.stdout)


BARS = {
    "dvc_metric_columns": "≤ 12",
    "exp_show_width": "≤ 120",
    "mlflow_parent_metrics": "≤ 40",
    "mlflow_opens_on_runs": "1",
    "names_equal": "1",
    "live_points_before_end": "≥ 5",
    "overhead_share": "≤ 0.02",
}
"""What each figure is to be."""


def table(figures: dict[str, float]) -> "Table":
    """A row for each figure."""
    from rich.table import Table

    made = Table(title="the windows on two runs", title_justify="left")
    for title in ("figure", "found", "wanted"):
        made.add_column(title, justify="left" if title == "figure" else "right")
    for name, bar in BARS.items():
        made.add_row(name, f"{figures[name]:g}", bar)
    return made


def main(arguments: Sequence[str]) -> None:
    """Run, print the table, and as the last line the figures."""
    from rich.console import Console

    parser = argparse.ArgumentParser("python -m benchmarks.views", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--screenshots", type=Path, metavar="FOLDER", help="also write a picture of each page there")
    parser.add_argument("--turns", type=int, default=2, help="runs with and without MLflow for overhead_share")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="graft-views-") as temporary:
        figures = measure(Path(temporary), options.screenshots, options.turns)
    Console(width=None if sys.stdout.isatty() else 80).print(table(figures))
    print(json.dumps({name: round(figures[name], 4) for name in BARS}))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
