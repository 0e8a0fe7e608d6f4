"""Reasons why a stage is stale: the inputs, params, sources and outputs that changed since its last run."""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dvc.dependency import ParamsDependency
from pydantic import TypeAdapter, ValidationError

from flows.stages.dvc_yaml import stage_of
from flows.stages.sources import listed_digests, text_of
from tasks.artifacts import read_text
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.params import Params

_WORDS = {"deleted": "missing", "modified": "changed", "new": "new", "not in cache": "not in the cache"}

_LISTED = TypeAdapter(dict[str, str])
"""Source file, or the param that names a user's file → digest."""


def reasons_for(stage: Any, root: Path, params: Params) -> list[str]:
    """The inputs, params, sources and outputs of a DVC stage that differ from its last run."""
    if not any(out.hash_info for out in stage.outs):
        return ["never run"]
    listed = Layout(root).sources.relative_to(root).as_posix()
    reasons = []
    for dep in stage.deps:
        if dep.def_path.startswith(f"{listed}/"):
            reasons += _source_changes(dep, listed_digests(root, stage_of(stage.addressing), params))
        elif state := dep.status():
            reasons.append(_dep_reason(dep, state))
    reasons += [f"output {out.def_path}: {_WORDS[s]}" for out in stage.outs for s in out.status().values()]
    return [*reasons, "its command changed"] if stage.changed_stage() else reasons


def _dep_reason(dep: Any, state: dict[str, Any]) -> str:
    if isinstance(dep, ParamsDependency):
        return ", ".join(_param_changes(dep.hash_info.value or {}, dep.read_params()))
    return ", ".join(f"input {dep.def_path}: {_WORDS[word]}" for word in state.values())


def _source_changes(dep: Any, now: Mapping[str, str]) -> list[str]:
    """Files that differ from those of the stage's last run, whose list is in DVC's cache; `now`: digests by name."""
    if hashlib.md5(text_of(now).encode(), usedforsecurity=False).hexdigest() == dep.hash_info.value:
        return []
    before = _listed(Path(dep.cache.oid_to_path(dep.hash_info.value))) if dep.hash_info else None
    if before is None:
        return ["its sources changed"]
    changed = [file for file in sorted(now.keys() | before.keys()) if now.get(file) != before.get(file)]
    words = {file: "new" if file not in before else "changed" if file in now else "gone" for file in changed}
    return [f"source {file}: {word}" for file, word in words.items()]


def _listed(path: Path) -> dict[str, str] | None:
    """None if the file is missing or damaged: copies in DVC's cache are verified only when they are restored."""
    try:
        return _LISTED.validate_json(read_text(path))
    except (GraftError, ValidationError):
        return None


def _param_changes(before: dict[str, Any], now: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key in sorted(before.keys() | now.keys()):
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _param_changes(old, new, f"{prefix}{key}.")
        elif old != new:
            yield f"param {prefix}{key}: {old} → {new}"
