"""`dvc.yaml` in Python: the stages in their order, the module of each, the round that a stage id names, and the params
that a stage may see."""

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tasks.artifacts import read_text
from tasks.errors import GraftError
from tasks.params.strict_yaml import load_yaml

ROUND = ("search", "collect", "reward", "select", "update")
"""The stages of a round."""

STAGES = ("problems", "coldstart", "bootstrap", *ROUND, "validate", "choose", "evaluate", "baselines", "promote")
MODULES = {stage: f"tasks.{stage}.task" for stage in STAGES}
MODULES |= {stage: f"tasks.evaluate.{stage}_task" for stage in ("validate", "choose", "baselines")}
"""Stage → the module whose `run(layout, params, round)` computes it."""

_PARAMS = TypeAdapter(list[str])


def stage_of(stage_id: str) -> str:
    """`search@1` → `search`."""
    return stage_id.partition("@")[0]


def round_of(stage_id: str) -> int | None:
    """`search@1` → 1, `evaluate@before` → 0; `evaluate@after` and `promote` → None.

    Raises GraftError if the part after @ is no round.
    """
    names = {"": None, "before": 0, "after": None}
    key = stage_id.partition("@")[2]
    if key not in names and not re.fullmatch("[0-9]{1,9}", key):
        raise GraftError(f"{stage_id}: {key!r} is no round; write its number, as in search@1")
    return names[key] if key in names else int(key)


def declared_params(root: Path, stage: str) -> list[str]:
    """The param keys that `dvc.yaml` lists for a stage."""
    path = root / "dvc.yaml"
    try:
        return _PARAMS.validate_python(definition(_document(path, read_text(path)), stage)["params"])
    except (AttributeError, LookupError, TypeError, ValidationError):
        raise GraftError(f"{path}: no list of params for {stage}; restore the file: git checkout dvc.yaml") from None


@lru_cache(maxsize=1)
def _document(path: Path, text: str) -> Any:
    """A `dvc.yaml` with this text: one command asks for the params of each stage several times."""
    return load_yaml(path, text)


def definition(document: Any, stage: str) -> Any:
    """The entry of a stage in a parsed `dvc.yaml`; for a stage with rounds, the part under `do`."""
    entry = document["stages"][stage]
    return entry.get("do", entry)


def parse(path: Path) -> Any:
    """`dvc.yaml` or `dvc.lock`. Raises GraftError if it is not plain YAML."""
    return load_yaml(path, read_text(path))


def stage_ids(rounds: int) -> list[str]:
    """problems ─ coldstart ─ bootstrap ─ (search ─ collect ─ reward ─ select ─ update) × rounds ─ …

    … validate × rounds ─ choose ─ evaluate before and after ─ baselines ─ promote
    """
    numbers = range(1, rounds + 1)
    return [
        *["problems", "coldstart", "bootstrap"],
        *[f"{stage}@{number}" for number in numbers for stage in ROUND],
        *[f"validate@{number}" for number in numbers],  # not inside the rounds: this is DVC's order
        *["choose", "evaluate@before", "evaluate@after", "baselines", "promote"],
    ]
