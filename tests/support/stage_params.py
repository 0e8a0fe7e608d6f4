"""The shipped params with changes, whole or as a stage sees them."""

from pathlib import Path
from typing import Any

from flows.stages.dvc_yaml import declared_params
from tasks.params.environment import EnvironmentChoice
from tasks.params.file import load_params, restrict
from tasks.params.params import Params

REPOSITORY = Path(__file__).parents[2]
SHIPPED = load_params(REPOSITORY / "params.yaml")


def shipped_params(**changes: Any) -> Params:
    """With these changes: a dict changes fields of a section, any other value replaces a param."""
    if "environment" in changes:
        changes["environment"] = EnvironmentChoice.model_validate(changes["environment"])
    changed = {
        name: getattr(SHIPPED, name).model_copy(update=change) if isinstance(change, dict) else change
        for name, change in changes.items()
    }
    return SHIPPED.model_copy(update=changed)


def stage_params(stage: str, **changes: Any) -> Params:
    """The same, restricted to what dvc.yaml lists for the stage."""
    return restrict(shipped_params(**changes), declared_params(REPOSITORY, stage))
