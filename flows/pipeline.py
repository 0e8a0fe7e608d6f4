"""What `dvc.yaml` means in Python: which module a stage runs, which round an address names, which params it may see."""

from pathlib import Path
from typing import Any

from tasks.artifacts import read_text
from tasks.errors import GraftError

MODULES = {
    "problems": "tasks.problems.task",
    "coldstart": "tasks.search.coldstart",
    "bootstrap": "tasks.policy.task",
    "search": "tasks.search.task",
    "collect": "tasks.trajectories.task",
    "reward": "tasks.rewards.task",
    "select": "tasks.influence.task",
    "update": "tasks.grpo.task",
    "validate": "tasks.evaluation.validate",
    "choose": "tasks.evaluation.choose",
    "evaluate": "tasks.evaluation.task",
    "promote": "tasks.promotion.task",
}
"""Stage → the module whose `run(layout, params, round)` computes it."""


def stage_of(address: str) -> str:
    """`search@1` → `search`."""
    return address.partition("@")[0]


def round_of(address: str) -> int | None:
    """`search@1` → 1, `evaluate@before` → 0; `evaluate@after` and `promote` → None, being of no certain round."""
    named = {"": None, "before": 0, "after": None}
    key = address.partition("@")[2]
    return named[key] if key in named else int(key)


def declared_params(root: Path, stage: str) -> list[str]:
    """The param keys that `dvc.yaml` lists for a stage."""
    return [str(key) for key in definition(parse(root / "dvc.yaml"), stage)["params"]]


def definition(document: Any, stage: str) -> Any:
    """The entry of a stage in a parsed `dvc.yaml`; for a stage of many rounds, what stands under `do`."""
    entry = document["stages"][stage]
    return entry.get("do", entry)


def parse(path: Path) -> Any:
    """A YAML file as mappings that keep its comments and style. Raises GraftError where it is no YAML."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError

    try:
        return YAML().load(read_text(path))
    except MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise GraftError(f"{path}{line}: not YAML: {error.problem}; mend the line") from None
