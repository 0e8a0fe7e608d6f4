"""Metrics, params and tags for MLflow, within its limits on names, values and the size of a call."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

TAGS_PER_CALL = 100  # MLflow's limits for one log_batch
METRICS_PER_CALL = 800  # it takes 1000 of all kinds
VALUE_LENGTH = 5000  # MLflow refuses longer tags and params

Item = TypeVar("Item")


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
