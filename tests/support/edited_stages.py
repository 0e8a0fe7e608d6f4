"""Edits of the stages in a `dvc.yaml`, each of which changes what DVC knows of a stage."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Stages = dict[str, Any]

ADDED: dict[str, Any] = {"frozen": True, "wdir": "elsewhere", "always_changed": True, "vars": [{"a": 1}], "cmd": "true"}
OPTIONS: dict[str, Any] = {"cache": False, "persist": True, "push": False, "desc": "mine"}
LISTS = ("deps", "params", "outs", "plots", "metrics")


def edits(stages: Stages) -> Iterator[tuple[str, Stages]]:
    """(the edit in words, the stages after it): each one on each stage, list and item for which there is something."""
    for stage, whole in stages.items():
        rest = {name: other for name, other in stages.items() if name != stage}
        yield f"{stage}: removed", rest
        yield f"{stage}: renamed", rest | {f"{stage}2": whole}
        if "foreach" in whole:
            yield f"{stage}: other rounds", stages | {stage: whole | {"foreach": {"1": 0}}}
        for words, entry in _entries(stage, whole.get("do", whole)):
            yield f"{stage}: {words}", stages | {stage: whole | {"do": entry} if "do" in whole else entry}


def _entries(stage: str, entry: Stages) -> Iterator[tuple[str, Stages]]:
    yield "two commands", entry | {"cmd": [entry["cmd"], "true"]}
    for key, value in ADDED.items():
        if entry.get(key) != value:
            yield f"{key}: {value}", entry | {key: value}
    for key in LISTS:
        if stage == "sources" and key == "deps":
            continue  # it runs every time
        listed = entry.get(key, [])
        yield f"{key}: one more", entry | {key: [*listed, "mine"]}
        if listed:
            yield f"no {key}", {name: value for name, value in entry.items() if name != key}
        for place, item in enumerate(listed):
            before, after = listed[:place], listed[place + 1 :]
            yield f"{key}: without {item}", entry | {key: [*before, *after]}
            for words, other in _items(key, item):
                yield f"{key}: {words}", entry | {key: [*before, other, *after]}


def _items(key: str, item: Any) -> Iterator[tuple[str, Any]]:
    if key == "params":
        yield f"{item} of another file", {"b.yaml": [item]}
        yield f"a part of {item}", f"{item}.part"
        return
    name, options = next(iter(item.items())) if isinstance(item, dict) else (item, {})
    yield f"{name} renamed", f"{name}2"
    for option, value in OPTIONS.items():
        if options.get(option) != value and key != "deps":
            yield f"{name}, {option}: {value}", {name: {**options, option: value}}


def allowed(stages: Stages) -> Iterator[tuple[str, Stages]]:
    """Edits that change nothing of Graft's own stages."""
    mine = {"cmd": "python mine.py", "deps": ["run/policy"], "outs": ["mine.json"], "frozen": True}
    yield "a stage of one's own", stages | {"mine": mine}
    update = stages["update"]["do"]
    turned = stages["update"] | {"do": update | {"params": update["params"][::-1]}}
    yield "another description and order", stages | {"choose": stages["choose"] | {"desc": "mine"}, "update": turned}


def write_stages(path: Path, stages: Stages) -> None:
    """As JSON, which is YAML."""
    path.write_text(json.dumps({"stages": stages}))
