"""The section `environment` of `params.yaml`: a name and params, which tasks/environments/lookup.py checks."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, field_validator, model_validator

from tasks.params.sections import Section


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
        if not re.fullmatch(r"[A-Za-z_]\w*|[A-Za-z_][\w.]*:[A-Za-z_]\w*", name):
            raise ValueError(f"write the name of a built-in one, or module:CLASS for another, not {name!r}")
        return name

    @property
    def params(self) -> Mapping[str, Any]:
        """Param → value, of all but the name."""
        return self.model_extra or {}
