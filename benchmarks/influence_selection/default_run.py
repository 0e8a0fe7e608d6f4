"""Seconds that the audit takes of a run as shipped."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from benchmarks.support import short_runs
from benchmarks.support.short_runs import Figures
from benchmarks.support.workspace import graft, make_workspace
from flows.stages.durations import last_seconds
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.file import load_params

REVISION = 2
"""Raised with each change after which the seconds are others."""


@dataclass(frozen=True)
class DefaultRun:
    """`graft retrain` as shipped, and once more with `influence.selection` none, each in a new workspace.

    The first stage of a process that needs a model pays for the imports, and that is never select.
    """

    seed: int

    @property
    def labels(self) -> dict[str, object]:
        """What it is, in words."""
        return {"variant": "default run", "seed": self.seed}

    @property
    def digest(self) -> str:
        """The name of the run in the results."""
        return short_runs.digest([f"seed={self.seed}"], REVISION, "default run")

    def run(self) -> Figures:
        """`seconds` of the first run; those of its `select` stages, and of the second's."""
        with tempfile.TemporaryDirectory(prefix="graft-default-") as name:
            started = perf_counter()
            audit = select_seconds(Path(name, "audit"), f"seed={self.seed}")
            seconds = perf_counter() - started
            none = select_seconds(Path(name, "none"), f"seed={self.seed}", "influence.selection=none")
            return {"seconds": seconds, "audit": audit, "none": none}


def select_seconds(root: Path, *assignments: str) -> float:
    """Retrain in a new workspace, and sum the seconds of the `select` stages."""
    make_workspace(root, assignments)
    ended = graft(root, "retrain")
    if ended.returncode:
        raise GraftError(f"{root}: graft retrain: {ended.stderr.strip()}")
    layout, rounds = Layout(root), load_params(root / "params.yaml").rounds.last
    return sum(last_seconds(layout, f"select@{number}") or 0.0 for number in range(1, rounds + 1))
