"""Short runs: complete rounds of the stages in one process, from problems and a first policy that several runs share.

The rounds are those of `graft retrain`: search, collect, reward, select and update, each the stage itself; a policy is
measured on the test problems as in the stage `evaluate`. The figures of a run are a line of a results file, by a digest
of what differs from the shipped params, so that what stands there is not computed again.
"""

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Hashable, Mapping, Sequence
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from benchmarks.support.workspace import PROJECT
from flows.stages.dvc_yaml import MODULES, ROUND
from tasks.artifacts import append_text, read_jsonl, read_text
from tasks.errors import GraftError
from tasks.evaluate.measure import evaluate_problems
from tasks.layout import Layout
from tasks.params.file import overridden
from tasks.params.params import Params
from tasks.records import Problem

Figures = dict[str, float]

Run = TypeVar("Run", bound=Hashable)


def params_of(assignments: Sequence[str]) -> Params:
    """The shipped params with some assignments."""
    path = PROJECT / "params.yaml"
    return overridden(path, path.read_text(encoding="utf-8"), assignments)[1]


def make_start(folder: Path, params: Params) -> None:
    """Problems and the first policy, unless they are there."""
    if folder.exists():
        return
    new = folder.with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)
    for stage in ("problems", "coldstart", "bootstrap"):
        import_module(MODULES[stage]).run(Layout(new), params, None)
    new.rename(folder)


def compute_rounds(start: Path, folder: Path, params: Params) -> float:
    """Compute the rounds in a copy of a start; returns their CPU seconds."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(start, folder)
    begun = time.process_time()
    for round in range(1, params.rounds.last + 1):
        for stage in ROUND:
            import_module(MODULES[stage]).run(Layout(folder), params, round)
    return time.process_time() - begun


def evaluate(folder: Path, params: Params, round: int) -> Figures:
    """The metrics of a round's policy on the test problems; round 0 is the first policy."""
    layout = Layout(folder)
    problems = read_jsonl(layout.problems("test"), Problem)
    return evaluate_problems(layout, params, layout.policy(round), problems, "benchmark").metrics


def digest(assignments: Sequence[str], *labels: object) -> str:
    """Names a run in a results file by its params, of which the last assignment counts, and by what else it differs in.

    One label is a revision that is raised with each change of code that changes the figures.
    """
    last = dict(assignment.split("=", 1) for assignment in assignments)
    return hashlib.sha256(f"{labels} {sorted(last.items())}".encode()).hexdigest()[:16]


def read_figures(path: Path, runs: Mapping[str, Run]) -> dict[Run, Figures]:
    """The figures of those runs, by digest, that are in a file. Raises GraftError where a line is no JSON object."""
    found: dict[Run, Figures] = {}
    for number, line in enumerate(read_text(path).splitlines() if path.exists() else [], start=1):
        try:
            kept = json.loads(line)
            name, figures = kept["digest"], kept["figures"]
        except (ValueError, KeyError, TypeError):
            raise GraftError(f"{path}:{number}: no result of a run; delete the line") from None
        if name in runs:
            found[runs[name]] = figures
    return found


def append_figures(path: Path, name: str, figures: Figures, **labels: object) -> None:
    """Add the figures of a run with date and machine."""
    machine = f"{os.cpu_count()} cores, {platform.machine()}"
    line = {**labels, "digest": name, "date": f"{date.today()}", "machine": machine, "figures": figures}
    append_text(path, json.dumps(line) + "\n")
