"""The shipped params with changes, whole or as a stage sees them."""

from pathlib import Path
from typing import Any

from flows.stages.dvc_yaml import declared_params
from tasks.params.environment import EnvironmentChoice
from tasks.params.file import load_params, restrict
from tasks.params.params import Params
from tasks.params.sections import Lora, PolicyParams, Section

REPOSITORY = Path(__file__).parents[2]
SHIPPED = load_params(REPOSITORY / "params.yaml")
LORA = Lora(rank=4, alpha=8.0, targets="all-linear")


def policy_params(base: Path | str, lora: Lora | None = LORA, **changes: Any) -> PolicyParams:
    """The section `policy` as shipped, but for the base, the adapter and these changes."""
    return SHIPPED.policy.model_copy(update={"base": str(base), "lora": lora, **changes})


def shipped_params(**changes: Any) -> Params:
    """With these changes: a dict changes fields of a section, any other value replaces a param."""
    if "environment" in changes:
        changes["environment"] = EnvironmentChoice.model_validate(changes["environment"])
    changed: Params = _changed(SHIPPED, changes)
    return changed


def _changed(section: Any, changes: dict[str, Any]) -> Any:
    nested = {
        name: _changed(getattr(section, name), change)
        for name, change in changes.items()
        if isinstance(change, dict) and isinstance(getattr(section, name), Section)
    }
    return section.model_copy(update=changes | nested)


def stage_params(stage: str, **changes: Any) -> Params:
    """The same, restricted to what dvc.yaml lists for the stage."""
    return restrict(shipped_params(**changes), declared_params(REPOSITORY, stage))
