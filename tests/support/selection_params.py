"""What tests give the stage `select`, and what it wrote."""

import json
from pathlib import Path
from typing import Any

from tasks.artifacts import read_jsonl
from tasks.layout import Layout
from tasks.params.file import load_params, restrict
from tasks.params.params import Params
from tasks.records import Selected

SHIPPED = load_params(Path(__file__).parents[2] / "params.yaml")


def params(grpo: dict[str, Any] | None = None, **influence: Any) -> Params:
    """As shipped, but for influence by `dot`, without control and mix, and GRPO as published."""
    changed = SHIPPED.influence.model_copy(
        update={"similarity": "dot", "fdr_control": False, "train_on_validation": False} | influence
    )
    keys = ["policy.max_new_tokens", "search.temperature", "influence"]
    grpo_keys = [
        "negative_weight",
        "advantages",
        "loss",
        "truncated",
        "prompts_per_step",
        "micro_batch_tokens",
        "processes",
        "on_invalid_completion",
    ]
    keys += [f"grpo.{key}" for key in grpo_keys]
    plain = {
        "negative_weight": 1.0,
        "advantages": "group",
        "loss": "dapo",
        "truncated": "learn",
        "on_invalid_completion": "stop",
    }
    changes = {"influence": changed, "grpo": SHIPPED.grpo.model_copy(update=plain | (grpo or {}))}
    return restrict(SHIPPED.model_copy(update=changes), keys)


def numbers(layout: Layout) -> dict[str, Any]:
    """The metrics of round 1."""
    return dict(json.loads(layout.metrics("select", 1).read_text()))


def kept(layout: Layout) -> list[bool]:
    """Of each line of round 1."""
    return [line.selected for line in read_jsonl(layout.selection(1), Selected)]
