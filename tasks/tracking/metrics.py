"""Metrics, params and tags for MLflow, within its limits on names, values and the size of a call.

The parent run has the headline, and a curve over the rounds for each of a few measures; all other metrics are on the
runs of the stages. MLflow's page of a run lists metrics in the order in which they first came, so the numbers of the
headline come at the start, as NaN until they are known. Each point is also a metric of the LoggedModel of its policy,
by which MLflow ranks the policies.

Metrics of optimiser steps, `step/…` on the stage's own run, appear while the stage runs. Their step is that of the
optimiser; the step of all others is the round.
"""

import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

from tasks.core.metrics_files import LiveRows
from tasks.statistics.learning_curves import CURVES

TAGS_PER_CALL = 100  # MLflow's limits for one log_batch
METRICS_PER_CALL = 800  # it takes 1000 of all kinds
VALUE_LENGTH = 5000  # MLflow refuses longer tags and params

Item = TypeVar("Item")

HEADLINE = ("greedy", "before", "change", "low", "high", "promoted", "sampled")
"""Names of `run/metrics.json`, without its pass@k."""

MINUTES = "minutes"

ROUND_METRICS = {f"train/{name}": source for name, source in CURVES.items()} | {
    "validate/dev_pass_at_1": ("validate", "sampled_mean")
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

    numbers = chunks(metrics or [], METRICS_PER_CALL)
    named = chunks([Param(valid_name(k), v[:VALUE_LENGTH]) for k, v in (params or {}).items()], TAGS_PER_CALL)
    tagged = chunks([RunTag(valid_name(k), v[:VALUE_LENGTH]) for k, v in (tags or {}).items()], TAGS_PER_CALL)
    for some in zip_longest(numbers, named, tagged, fillvalue=()):
        client.log_batch(run_id, *some)


def make_metrics(values: Mapping[str, float], time: float, step: int = 0, model_id: str | None = None) -> list[Any]:
    """MLflow's metrics of one time and step; of a LoggedModel, too, if its id is given."""
    from mlflow.entities import Metric

    now = milliseconds(time)
    return [Metric(valid_name(name), value, now, step, model_id=model_id) for name, value in values.items()]


def chunks(values: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]


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


class RunSummary:
    """The metrics of the parent that MLflow does not have yet.

    Points of a round wait for its policy, the last thing that a round makes, so that they can name its LoggedModel.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, list[tuple[dict[str, float], float]]] = {}  # by round
        self._models: dict[int, str] = {}  # LoggedModels by round
        self._ready: list[Any] = []

    def add_stage(self, stage: str, round: int, metrics: Mapping[str, float], time: float) -> None:
        """Add the points of a round's stage."""
        if chosen := round_metrics(stage, metrics):
            self._waiting.setdefault(round, []).append((chosen, time))
        if round in self._models or stage == "update":
            self._release([round])

    def add_model(self, round: int, model_id: str) -> None:
        """The LoggedModel of a round's policy exists."""
        self._models[round] = model_id

    def add(self, metrics: Mapping[str, float], time: float, model_id: str | None = None) -> None:
        """Add metrics of the run as a whole."""
        self._ready += make_metrics(metrics, time, model_id=model_id)

    def release_all(self) -> None:
        """The run has ended: no policy of an unfinished round will come."""
        self._release(list(self._waiting))

    def send(self, client: Any, run_id: str) -> None:
        """Send what is ready, together: a call takes as long for one metric as for a thousand."""
        while self._ready:
            client.log_batch(run_id, metrics=self._ready[:METRICS_PER_CALL])
            del self._ready[:METRICS_PER_CALL]

    def _release(self, rounds: Iterable[int]) -> None:
        for round in rounds:
            for metrics, when in self._waiting.pop(round, []):
                self._ready += make_metrics(metrics, when, round, self._models.get(round))


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


def row_batches(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """As many rows at once as MLflow takes in one call."""
    return chunks(rows, max(METRICS_PER_CALL // len(rows[0]), 1)) if rows else iter(())


def step_points(rows: Sequence[Row], now: float) -> list[Any]:
    """Rows as MLflow's metrics."""
    return [
        metric
        for row in rows
        for metric in make_metrics({f"step/{k}": v for k, v in row.items() if k != "step"}, now, round(row["step"]))
    ]
