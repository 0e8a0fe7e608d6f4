"""The section `environment` of `params.yaml`: a name, and params that the environment itself checks."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, field_validator, model_validator

from tasks.params.sections import Section

BUILT_IN = {
    "workflow": "tasks.environments.workflow:WorkflowEnvironment",
    "answer": "tasks.environments.tagged_answer:TaggedAnswer",
}
"""Name → module:CLASS; only the module of the environment that is named is imported, and is a source of the stages."""

MOVED = {"code": "recipes.code:Code"}
"""Environments that were built in → where they are."""


class EnvironmentChoice(Section):
    """`environment: answer`, or `environment: {name: answer, strict: true}` with params of its own."""

    model_config = ConfigDict(extra="allow")

    name: str

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if name in MOVED:
            raise ValueError(f"{name!r} is none of {', '.join(BUILT_IN)}; did you mean {MOVED[name]!r}?")
        if name not in BUILT_IN and not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", name):
            raise ValueError(
                f"write {', '.join(BUILT_IN)}, or module:CLASS for another one, recipes.chess:RookWorld for instance, "
                f"not {name!r}"
            )
        return name

    @property
    def path(self) -> str:
        """module:CLASS, of a built-in one too."""
        return BUILT_IN.get(self.name, self.name)

    @property
    def params(self) -> Mapping[str, Any]:
        """Param → value, of all but the name."""
        return self.model_extra or {}
