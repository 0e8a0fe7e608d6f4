"""Edits of a project's `dvc.yaml`: how its stages differ from those that this version of Graft writes.

DVC believes the file: a stage whose param was taken out is up to date whatever that param is. Stages of one's own, and
descriptions, may be there.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flows.project.new_project import FILES, IN_CLONE, IN_PROJECT, project_stages
from flows.stages.dvc_yaml import parse
from flows.stages.sources import SOURCES
from tasks.artifacts import read_text
from tasks.errors import GraftError

REMEDY = "git checkout dvc.yaml, or take the stage from the dvc.yaml that graft new DIR writes"

_LISTS = ("deps", "params", "outs", "plots", "metrics")
_OPTIONAL = ("desc", "meta")
_ABSENT = "nothing"


def edited_stages(root: Path) -> list[str]:
    """A line for each stage that differs, with what it lacks and has. Raises GraftError if the file is no YAML."""
    path, shipped = root / "dvc.yaml", FILES / "stages.yaml"
    text = read_text(shipped)
    if read_text(path) in (text, project_stages(text)):
        return []
    return differences(parse(shipped), parse(path))


def differences(shipped: Any, ours: Any) -> list[str]:
    """`edited_stages` of two parsed files."""
    try:
        pairs = [(stage, entry, ours["stages"].get(stage)) for stage, entry in shipped["stages"].items()]
        edits = [(stage, "; ".join(_differences(stage, before, now))) for stage, before, now in pairs]
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise GraftError(f"dvc.yaml: its stages cannot be read ({error}); {REMEDY}") from None
    return [f"dvc.yaml: {stage}: {what}" for stage, what in edits if what]


def _differences(stage: str, shipped: dict[str, Any], ours: dict[str, Any] | None) -> Iterator[str]:
    if ours is None:
        yield "is not there"
        return
    before, now = _plain(stage, shipped), _plain(stage, ours)
    for key in [*before, *(key for key in now if key not in before)]:
        if key not in _LISTS:
            if before.get(key) != now.get(key):
                yield f"{key} is {now.get(key, _ABSENT)}, not {before.get(key, _ABSENT)}"
            continue
        old, new = before.get(key, {}), now.get(key, {})
        yield from (f"{key} lacks {name}" for name in old if name not in new)
        yield from (f"{key} has {name} besides" for name in new if name not in old)
        both = [name for name in old if name in new and old[name] != new[name]]
        yield from (f"{key}: {name} is {new[name] or _ABSENT}, not {old[name] or _ABSENT}" for name in both)


def _plain(stage: str, entry: dict[str, Any]) -> dict[str, Any]:
    """The settings of a stage by name, those under `do` too; of a list, item → its options."""
    flat = {key: value for key, value in entry.items() if key != "do"} | dict(entry.get("do", {}))
    settings = {key: _items(value) if key in _LISTS else value for key, value in flat.items() if key not in _OPTIONAL}
    settings["cmd"] = str(settings.get("cmd", "")).replace(IN_CLONE, IN_PROJECT, 1)
    if stage == SOURCES:
        settings.pop("deps", None)  # it runs every time; a project has none
    return settings


def _items(listed: Any) -> dict[str, Any]:
    pairs: list[Any] = [next(iter(item.items()), ("", {})) if isinstance(item, dict) else (item, {}) for item in listed]
    return {str(name): options for name, options in pairs}
