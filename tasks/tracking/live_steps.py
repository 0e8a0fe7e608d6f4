"""Metrics of optimiser steps in MLflow: those of a stage that is running as they appear, and those of a whole table.

The step of these metrics, `step/…` on the stage's own run, is that of the optimiser; the step of all others is the
round.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tasks.core.metrics_files import LiveRows
from tasks.tracking.batches import METRICS_PER_CALL, chunks, make_metrics

SHARE = 0.02
"""Largest share of the time that MLflow may take for the rows of a stage that is running."""

SHORTEST, LONGEST = 1.0, 30.0
"""Seconds between two looks at the rows; the longest after an error."""

Row = dict[str, float]


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
