"""Sets of params that are known to belong together: `graft retrain --preset NAME` writes them as `-S` would.

A preset is a YAML file with a part of the params: flows/presets/NAME.yaml, or recipes/NAME/preset.yaml.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tasks.artifacts import read_text
from tasks.core.child_process import CODE
from tasks.errors import GraftError
from tasks.params.environment import EnvironmentChoice
from tasks.params.file import section_of
from tasks.params.params import Params
from tasks.params.sections import Section
from tasks.params.strict_yaml import load_yaml

OF_A_BASE = ("small", "medium", "improved", "manual")
"""Presets that leave the base to the user."""


def presets() -> dict[str, Path]:
    """Name → file of all presets, sorted."""
    files = {file.stem: file for file in (CODE / "flows" / "presets").glob("*.yaml")}
    files |= {file.parent.name: file for file in (CODE / "recipes").glob("*/preset.yaml")}
    return dict(sorted(files.items()))


def preset(name: str) -> list[str]:
    """The assignments of a preset. Raises GraftError where there is none of the name."""
    files = presets()
    if name not in files:
        raise GraftError(f"--preset {name}: there is none; name one of: {', '.join(files)}")
    return list(_assignments(load_yaml(files[name], read_text(files[name])), Params))


def check_base_is_named(name: str | None, base: str) -> None:
    """Raise GraftError where the preset is for a base and `policy.base` is none."""
    if name in OF_A_BASE and base == "scratch":
        raise GraftError(
            f"--preset {name}: is for a pretrained base, but policy.base is scratch; name one: "
            "-S policy.base=Qwen/Qwen2.5-0.5B-Instruct, for instance, or a folder"
        )


def _assignments(values: Mapping[str, Any], section: type[Section], prefix: str = "") -> Iterator[str]:
    """`key=value` for each param below a section; an environment with its name is one, without it its own params."""
    for key, value in values.items():
        field = section.model_fields.get(key)
        below = section_of(field.annotation) if field else None
        mapping = isinstance(value, Mapping) and not (below is EnvironmentChoice and "name" in value)
        if mapping and isinstance(below, type) and issubclass(below, Section):
            yield from _assignments(value, below, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}={json.dumps(value)}"
