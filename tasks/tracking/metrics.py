"""Metrics of a run and of its stages.

The parent run has the headline, and a curve over the rounds for each of a few measures; all other metrics are on the
runs of the stages.

Metrics of optimiser steps, `step/…` on the stage's own run, appear while the stage runs. Their step is that of the
optimiser; the step of all others is the round.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tasks.core.metrics_files import LiveRows
from tasks.core.sharding import shards_of
from tasks.statistics.learning_curves import CURVES
from tasks.tracking.tracker import Metric, Tracker

POINTS_PER_CALL = 800  # MLflow takes 1000 metrics, params and tags in one call

HEADLINE = ("greedy", "before", "change", "low", "high", "promoted", "sampled")
"""Names of `run/metrics.json`, without its pass@k."""

MINUTES = "minutes"

ROUND_METRICS = {
    **{f"train/{name}": source for name, source in CURVES.items() if name != "mean_reward"},
    **{name: ("reward", name) for name in ("epoch/mean_reward", "epoch/accumulated_reward")},
    **{f"train/pass_at_{k}": ("reward", f"pass_at_{k}") for k in (1, 5, 10)},  # of the round's own samples
    "validate/dev_pass_at_1": ("validate", "sampled_mean"),
    **{f"validate/dev_pass_at_{k}": ("validate", f"pass_at_{k}") for k in (5, 10)},
}
"""Metric of the parent → the stage of the round that measures it, and its metric there."""

SHARE = 0.02
"""Largest share of the time that the tracker may take for the rows of a stage that is running."""

SHORTEST, LONGEST = 1.0, 30.0
"""Seconds between two looks at the rows; the longest after an error."""

StepRow = dict[str, float]


def make_points(values: Mapping[str, float], time: float, step: int = 0) -> list[Metric]:
    """The numbers of one time and step."""
    return [Metric(name, value, time, step) for name, value in values.items()]


def headline_names(ks: Sequence[int]) -> list[str]:
    """The names of the headline, and the minutes. `ks`: those of pass@k."""
    return [*HEADLINE, f"pass_at_{max(ks)}", MINUTES]


def headline_metrics(headline: Mapping[str, float]) -> dict[str, float]:
    """The numbers of `run/metrics.json` by names that trackers take: `pass@10` → `pass_at_10`."""
    return {name.replace("@", "_at_"): value for name, value in headline.items()}


def round_metrics(stage: str, metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics of a stage that are on the parent run, too, by their names there."""
    sources = {name: metric for name, (measured_by, metric) in ROUND_METRICS.items() if measured_by == stage}
    return {name: metrics[metric] for name, metric in sources.items() if metric in metrics}


class LiveSteps:
    """The rows of a stage that has begun, and how many of them the tracker has."""

    def __init__(self, path: Path, start: float) -> None:
        """`start`: time at which the stage began."""
        self.start = start
        self.running = True  # until the stage is recorded as done
        self.logged = 0
        self.pause = SHORTEST  # seconds until the next look
        self._rows = LiveRows(path)

    def rows(self) -> list[StepRow]:
        """The rows that the tracker does not have."""
        return self._rows.read(self.logged) if self.running else []

    def log(self, tracker: Tracker, run_id: str, rows: Sequence[StepRow]) -> None:
        """Add `rows` to the stage's run; a slow store is given longer pauses. Raises what the tracker raises."""
        began = time.monotonic()
        for some in row_batches(rows):
            tracker.log(run_id, {}, step_points(some, time.time()))
            self.logged += len(some)
        self.pause = min(max((time.monotonic() - began) / SHARE, SHORTEST), LONGEST)


def row_batches(rows: Sequence[StepRow]) -> Iterator[list[StepRow]]:
    """Batches of as many rows as one call of the tracker takes."""
    return shards_of(rows, max(POINTS_PER_CALL // len(rows[0]), 1)) if rows else iter(())


def step_points(rows: Sequence[StepRow], now: float) -> list[Metric]:
    """The metrics of rows of a table of steps, named `step/…`, each at its step."""
    return [
        point
        for row in rows
        for point in make_points({f"step/{k}": v for k, v in row.items() if k != "step"}, now, round(row["step"]))
    ]
