"""What `dvc.yaml` means in Python: which module a stage runs, which round an address names, which params it may see."""

import re
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tasks.artifacts import read_text
from tasks.errors import GraftError
from tasks.params.strict_yaml import load_yaml

MODULES = {
    "problems": "tasks.problems.task",
    "coldstart": "tasks.coldstart.task",
    "bootstrap": "tasks.bootstrap.task",
    "search": "tasks.search.task",
    "collect": "tasks.trajectories.task",
    "reward": "tasks.rewards.task",
    "select": "tasks.influence.task",
    "update": "tasks.grpo.task",
    "validate": "tasks.evaluation.validate_task",
    "choose": "tasks.evaluation.choose_task",
    "evaluate": "tasks.evaluation.evaluate_task",
    "promote": "tasks.promotion.task",
}
"""Stage → the module whose `run(layout, params, round)` computes it."""


_PARAMS = TypeAdapter(list[str])


def stage_of(address: str) -> str:
    """`search@1` → `search`."""
    return address.partition("@")[0]


def round_of(address: str) -> int | None:
    """`search@1` → 1, `evaluate@before` → 0; `evaluate@after` and `promote` → None, being of no certain round.

    Raises GraftError where it names no round.
    """
    named = {"": None, "before": 0, "after": None}
    key = address.partition("@")[2]
    if key not in named and not re.fullmatch("[0-9]{1,9}", key):
        raise GraftError(f"{address}: {key!r} is no round; write its number, as in search@1")
    return named[key] if key in named else int(key)


def declared_params(root: Path, stage: str) -> list[str]:
    """The param keys that `dvc.yaml` lists for a stage."""
    path = root / "dvc.yaml"
    try:
        return _PARAMS.validate_python(definition(parse(path), stage)["params"])
    except (AttributeError, LookupError, TypeError, ValidationError):
        raise GraftError(f"{path}: no list of params for {stage}; restore the file: git checkout dvc.yaml") from None


def definition(document: Any, stage: str) -> Any:
    """The entry of a stage in a parsed `dvc.yaml`; for a stage of many rounds, what stands under `do`."""
    entry = document["stages"][stage]
    return entry.get("do", entry)


def parse(path: Path) -> Any:
    """`dvc.yaml` or `dvc.lock`. Raises GraftError where it is no YAML, or more than data."""
    return load_yaml(path, read_text(path))
