"""Summary of a run on its parent in MLflow: the headline, and a curve over the rounds for each of a few measures.

All other metrics are on the runs of the stages. MLflow's page of a run lists metrics in the order in which they first
came, so the numbers of the headline come at the start, as NaN until they are known. Each point is also a metric of the
LoggedModel of its policy, by which MLflow ranks the policies.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tasks.statistics.learning_curves import CURVES
from tasks.tracking.batches import METRICS_PER_CALL, make_metrics

HEADLINE = ("greedy", "before", "change", "low", "high", "promoted", "sampled")
"""Names of `run/metrics.json`, without its pass@k."""

MINUTES = "minutes"

ROUND_METRICS = {f"train/{name}": source for name, source in CURVES.items()} | {
    "validate/dev_pass_at_1": ("validate", "sampled_mean")
}
"""Metric of the parent → the stage of the round that measures it, and its metric there."""


def unknown_headline(ks: Sequence[int]) -> dict[str, float]:
    """The headline and the minutes before they are known. `ks`: those of pass@k."""
    return dict.fromkeys([*HEADLINE, f"pass_at_{max(ks)}", MINUTES], math.nan)


def headline_metrics(headline: Mapping[str, float]) -> dict[str, float]:
    """The numbers of `run/metrics.json` by names that MLflow takes: `pass@10` → `pass_at_10`."""
    return {name.replace("@", "_at_"): value for name, value in headline.items()}


def round_metrics(stage: str, metrics: Mapping[str, float]) -> dict[str, float]:
    """Those of a stage's metrics that are on the parent, by their names there."""
    sources = {name: metric for name, (own, metric) in ROUND_METRICS.items() if own == stage}
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
            for metrics, time in self._waiting.pop(round, []):
                self._ready += make_metrics(metrics, time, round, self._models.get(round))
