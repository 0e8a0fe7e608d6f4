"""CPU seconds until the score of the run as shipped, where every reward is exact: curricula and influence.

    python -m benchmarks.influence_selection.exact_rewards --seeds 5 6

Every method starts from the same first policy of a seed, on the problems of SETTINGS. The run as shipped ends after
ROUNDS[0] rounds, the score of its policy is the goal: the share of right samples of dev problems. The others go on
until they reach it, for at most ROUNDS[1] rounds. CPU seconds and completions are those of search to update, with the
sandbox and without the measurement of the score; between two rounds both are interpolated. Each run is a line of
exact_rewards.jsonl, and a command computes what is missing there. The last line of standard output is one JSON object.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from benchmarks.support.workspace import PROJECT, graft, make_workspace
from flows.process.exit_codes import exit_code
from tasks.artifacts import append_text, read_text
from tasks.core.metrics_files import read_metrics
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.file import override

if TYPE_CHECKING:
    from rich.table import Table

RESULTS = PROJECT / "benchmarks" / "influence_selection" / "exact_rewards.jsonl"
ROUNDS = (3, 6)
SETTINGS = (
    "machine.tracking.uri=''",
    "problems.train=360",
    "environment.phrasings=1",
    "problems.dev=200",
    "evaluation.every=1",
)
"""With the problems of the results, which were the default's on 2026-11-25."""
SHIPPED, INFLUENCE = "as shipped", "influence"
METHODS: dict[str, tuple[str, ...]] = {
    SHIPPED: (),
    INFLUENCE: ("influence.selection=positive",),
}
ROUND = ("search", "collect", "reward", "select", "update")


@dataclass(frozen=True)
class Curve:
    """CPU seconds, completions and score after each round of a run; all sums but the score."""

    method: str
    seed: int
    seconds: list[float]
    completions: list[float]
    scores: list[float]
    date: str
    machine: str


Curves = dict[int, dict[str, Curve]]
"""Seed → method → curve."""


def reached(scores: Sequence[float], costs: Sequence[float], goal: float) -> float | None:
    """The cost at which the score first is at least `goal`, None if it never is.

    `scores` [R] and `costs` [R] are those after each round; between two rounds both grow linearly. The first round
    counts as a whole.
    """
    for number, (score, cost) in enumerate(zip(scores, costs, strict=True)):
        if score >= goal:
            if number == 0:
                return cost
            share = (goal - scores[number - 1]) / (score - scores[number - 1])
            return costs[number - 1] + share * (cost - costs[number - 1])
    return None


def run(prepared: Path, folder: Path, method: str, seed: int, goal: float | None) -> Curve:
    """Rounds of a method in a copy of the workspace `prepared`, until `goal` is reached; without one as shipped."""
    shutil.copytree(prepared, folder, symlinks=True)
    override(folder / "params.yaml", METHODS[method])
    layout = Layout(folder)
    seconds, completions, scores = [0.0], [0.0], []
    for number in range(1, ROUNDS[goal is not None] + 1):
        before = _processor_seconds()
        _stages(folder, *(f"{stage}@{number}" for stage in ROUND))
        seconds.append(seconds[-1] + _processor_seconds() - before)
        completions.append(completions[-1] + read_metrics(layout, f"search@{number}")["completions"])
        _stages(folder, f"validate@{number}")
        scores.append(read_metrics(layout, f"validate@{number}")["sampled_mean"])
        if goal is not None and scores[-1] >= goal:
            break
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    return Curve(method, seed, seconds[1:], completions[1:], scores, date.today().isoformat(), machine)


def read_curves(path: Path) -> Curves:
    """Seed → method → curve, of the lines of the file; none where there is no file."""
    curves: Curves = {}
    for line in read_text(path).splitlines() if path.exists() else []:
        curve = Curve(**json.loads(line))
        curves.setdefault(curve.seed, {})[curve.method] = curve
    return curves


def costs(curves: Curves, method: str) -> list[tuple[float, float] | None]:
    """CPU seconds and completions until the goal for each seed that has the method, None where it is not reached."""
    found: list[tuple[float, float] | None] = []
    for own in curves.values():
        if method in own and SHIPPED in own:
            goal, curve = own[SHIPPED].scores[-1], own[method]
            seconds = reached(curve.scores, curve.seconds, goal)
            completions = reached(curve.scores, curve.completions, goal)
            found.append(None if seconds is None or completions is None else (seconds, completions))
    return found


def exact_speedup(curves: Curves) -> float:
    """CPU seconds of selection by influence, the default until 2026-11-25, as a multiple of those as shipped.

    Raises LookupError where a run is missing or does not reach the score.
    """
    pairs = list(zip(costs(curves, INFLUENCE), costs(curves, SHIPPED), strict=False))
    found = [influence[0] / shipped[0] for influence, shipped in pairs if influence and shipped]
    if not found or len(found) < len(pairs):
        raise LookupError("not every run of benchmarks.influence_selection.exact_rewards reaches the score as shipped")
    return fmean(found)


def table(curves: Curves) -> "Table":
    """A row for each method: the means over the seeds that reach the goal, and how many these are."""
    from rich.table import Table

    made = Table(title="until the score of the run as shipped, rewards exact", title_justify="left")
    for title in ("method", "seeds that reach it", "CPU seconds", "completions"):
        made.add_column(title, justify="left" if title == "method" else "right")
    for method in METHODS:
        found = costs(curves, method)
        ended = [one for one in found if one is not None]
        numbers = [f"{fmean(one[i] for one in ended):,.0f}" for i in (0, 1)] if ended else ["", ""]
        made.add_row(method, f"{len(ended)} of {len(found)}", *numbers)
    return made


def main(arguments: Sequence[str]) -> None:
    """Compute what is missing, print the table, and as the last line the figures."""
    from rich.console import Console

    parser = argparse.ArgumentParser(
        "python -m benchmarks.influence_selection.exact_rewards", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[5, 6], metavar="SEED")
    parser.add_argument("--keep", type=Path, default=RESULTS, metavar="FILE", help="results, a line a run")
    options = parser.parse_args(arguments)
    for seed in options.seeds:
        _compute(seed, options.keep)
    curves = read_curves(options.keep)
    Console(width=None if sys.stdout.isatty() else 140).print(table(curves))
    print(json.dumps({"exact_speedup": round(exact_speedup(curves), 4), "seeds": sorted(curves)}))


def _compute(seed: int, keep: Path) -> None:
    known = read_curves(keep).get(seed, {})
    missing = [method for method in METHODS if method not in known]
    if not missing:
        return
    with tempfile.TemporaryDirectory(prefix="graft-exact-") as folder:
        prepared = make_workspace(
            Path(folder, "prepared"),
            [f"seed={seed}", *SETTINGS, f"rounds={ROUNDS[1]}"],
        )
        _stages(prepared, "problems", "coldstart", "bootstrap")
        for method in missing:
            goal = None if method == SHIPPED else read_curves(keep)[seed][SHIPPED].scores[-1]
            curve = run(prepared, Path(folder, "run"), method, seed, goal)
            append_text(keep, json.dumps(asdict(curve)) + "\n")
            print(f"seed {seed}, {method}: {curve.scores} in {curve.seconds} CPU s", file=sys.stderr)
            shutil.rmtree(Path(folder, "run"))


def _stages(root: Path, *stages: str) -> None:
    ended = graft(root, "stage", *stages)
    if ended.returncode:
        raise GraftError(f"{root}: {ended.stderr.strip().splitlines()[-1]}; correct that first")


def _processor_seconds() -> float:
    """Of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
