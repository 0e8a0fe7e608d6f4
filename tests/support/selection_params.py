"""What tests give the stage `select`, and what it wrote."""

import json
from typing import Any

from tasks.artifacts import read_jsonl
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.records.selection import Selected
from tasks.select.select_samples import HeldOut, hold_out
from tasks.select.task import write_selection
from tasks.trajectories import RewardedTrajectory
from tests.support.groups import read_rewarded
from tests.support.stage_params import stage_params


def params(update: dict[str, Any] | None = None, **influence: Any) -> Params:
    """As shipped, but for positive influence by `dot` without mix, and plain GRPO."""
    by_dot = {"selection": "positive", "similarity": "dot", "train_on_validation": False, "fdr_control": False}
    plain = {"negative_weight": 1.0, "advantages": "group", "loss": "dapo", "truncated": "learn"}
    return stage_params("select", influence=by_dot | influence, update=plain | (update or {}))


def recorded(layout: Layout, params: Params) -> tuple[list[RewardedTrajectory], HeldOut]:
    """The training completions of round 1, and its validation from the file as if it were sampled."""
    train, validation = (list(read_rewarded(layout.trajectories(1, split))) for split in ("train", "validation"))
    return train, hold_out(train, lambda first, last: validation[first:last], params)


def run_selection(layout: Layout, params: Params) -> None:
    """Select in round 1 with the validation that is there."""
    write_selection(*recorded(layout, params), layout, params, 1)


def numbers(layout: Layout) -> dict[str, Any]:
    """The metrics of round 1."""
    return dict(json.loads(layout.metrics("select", 1).read_text()))


def kept(layout: Layout) -> list[bool]:
    """Of each line of round 1."""
    return [line.selected for line in read_jsonl(layout.selection(1), Selected)]
