"""Complete runs as shipped but for `influence.selection`."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.learning import GREEDY, SAMPLED, learn
from benchmarks.support import short_runs
from benchmarks.support.short_runs import Figures
from flows.stages.durations import last_seconds
from tasks.layout import Layout
from tasks.params.fields import SelectionRule
from tasks.params.file import load_params

REVISION = 1
"""Raised with each change after which the figures are others."""


@dataclass(frozen=True)
class CompleteRun:
    """`graft retrain` in a new workspace.

    The first stage of a process that needs a model pays for the imports, and that is never select.
    """

    selection: SelectionRule
    seed: int

    @property
    def assignments(self) -> list[str]:
        """What differs from the shipped params, but for the seed."""
        return [f"influence.selection={self.selection}"]

    @property
    def labels(self) -> dict[str, object]:
        """What it is, in words."""
        return {"variant": f"complete run, {self.selection}", "seed": self.seed}

    @property
    def digest(self) -> str:
        """The name of the run in the results."""
        return short_runs.digest([*self.assignments, f"seed={self.seed}"], REVISION, "complete run")

    def run(self) -> Figures:
        """Its seconds, those of its `select` stages, and pass@1 of the last policy, greedy and sampled."""
        with tempfile.TemporaryDirectory(prefix="graft-complete-") as name:
            root = Path(name, "run")
            learnt = learn(root, self.seed, self.assignments, verbose=False)
            layout, rounds = Layout(root), load_params(root / "params.yaml").rounds.last
            select = sum(last_seconds(layout, f"select@{number}") or 0.0 for number in range(1, rounds + 1))
        greedy, sampled = learnt.after[GREEDY], learnt.after[SAMPLED]
        return {"seconds": learnt.seconds, "select_seconds": select, "greedy": greedy, "sampled": sampled}
