"""Metrics, params and tags for MLflow, within its limits on names, values and the size of a call.

The parent run has the headline, and a curve over the rounds for each of a few measures; all other metrics are on the
runs of the stages. MLflow's page of a run lists metrics in the order in which they first came, so the numbers of the
headline come at the start, as NaN until they are known.

Metrics of optimiser steps, `step/…` on the stage's own run, appear while the stage runs. Their step is that of the
optimiser; the step of all others is the round.
"""

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tasks.core.metrics_files import LiveRows
from tasks.core.sharding import shards_of
from tasks.statistics.learning_curves import CURVES

TAGS_PER_CALL = 100  # MLflow's limits for one log_batch
METRICS_PER_CALL = 800  # it takes 1000 of all kinds
VALUE_LENGTH = 5000  # MLflow refuses longer tags and params

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
"""Largest share of the time that MLflow may take for the rows of a stage that is running."""

SHORTEST, LONGEST = 1.0, 30.0
"""Seconds between two looks at the rows; the longest after an error."""

Row = dict[str, float]


def log(
    client: Any,
    run_id: str,
    params: Mapping[str, str] | None = None,
    tags: Mapping[str, str] | None = None,
    metrics: list[Any] | None = None,
) -> None:
    """Log to a run, in as few calls as MLflow allows."""
    from mlflow.entities import Param, RunTag

    numbers = shards_of(metrics or [], METRICS_PER_CALL)
    named = shards_of([Param(valid_name(k), v[:VALUE_LENGTH]) for k, v in (params or {}).items()], TAGS_PER_CALL)
    tagged = shards_of([RunTag(valid_name(k), v[:VALUE_LENGTH]) for k, v in (tags or {}).items()], TAGS_PER_CALL)
    for some in zip_longest(numbers, named, tagged, fillvalue=()):
        client.log_batch(run_id, *some)


def make_metrics(values: Mapping[str, float], time: float, step: int = 0) -> list[Any]:
    """MLflow's metrics of one time and step."""
    from mlflow.entities import Metric

    now = milliseconds(time)
    return [Metric(valid_name(name), value, now, step) for name, value in values.items()]


def valid_name(name: str) -> str:
    """`name` with the characters that MLflow refuses, such as `@`, replaced."""
    return re.sub(r"[^\w\-. :/]", "_", name)


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def unknown_headline(ks: Sequence[int]) -> dict[str, float]:
    """The headline and the minutes before they are known. `ks`: those of pass@k."""
    return dict.fromkeys([*HEADLINE, f"pass_at_{max(ks)}", MINUTES], math.nan)


def headline_metrics(headline: Mapping[str, float]) -> dict[str, float]:
    """The numbers of `run/metrics.json` by names that MLflow takes: `pass@10` → `pass_at_10`."""
    return {name.replace("@", "_at_"): value for name, value in headline.items()}


def round_metrics(stage: str, metrics: Mapping[str, float]) -> dict[str, float]:
    """Those of a stage's metrics that are on the parent, by their names there."""
    sources = {name: metric for name, (measured_by, metric) in ROUND_METRICS.items() if measured_by == stage}
    return {name: metrics[metric] for name, metric in sources.items() if metric in metrics}


class LiveSteps:
    """The rows of a stage that has begun, and how many of them MLflow has."""

    def __init__(self, path: Path, start: float) -> None:
        """`start`: time at which the stage began."""
        self.start = start
        self.running = True  # until the stage is recorded as done
        self.logged = 0
        self.pause = SHORTEST  # seconds until the next look
        self._rows = LiveRows(path)

    def rows(self) -> list[Row]:
        """The rows that MLflow does not have."""
        return self._rows.read(self.logged) if self.running else []

    def log(self, client: Any, run_id: str, rows: Sequence[Row]) -> None:
        """Add `rows` to the stage's run; a slow store is given longer pauses. Raises what MLflow raises."""
        began = time.monotonic()
        for some in row_batches(rows):
            client.log_batch(run_id, metrics=step_points(some, time.time()))
            self.logged += len(some)
        self.pause = min(max((time.monotonic() - began) / SHARE, SHORTEST), LONGEST)


def row_batches(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """As many rows at once as MLflow takes in one call."""
    return shards_of(rows, max(METRICS_PER_CALL // len(rows[0]), 1)) if rows else iter(())


def step_points(rows: Sequence[Row], now: float) -> list[Any]:
    """Rows as MLflow's metrics."""
    return [
        metric
        for row in rows
        for metric in make_metrics({f"step/{k}": v for k, v in row.items() if k != "step"}, now, round(row["step"]))
    ]
