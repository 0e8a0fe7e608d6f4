"""Params that a file lacks because this version of Graft has more: they are those of the shipped file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tasks.artifacts import read_text, write_text
from tasks.params.params import Params
from tasks.params.strict_yaml import load_yaml, value_at

SHIPPED = Path(__file__).with_name("shipped.yaml")
"""A copy of the repository's own params.yaml, by `python -m docs.reference`."""


def fill(document: dict[Any, Any]) -> list[str]:
    """Set the missing params of a parsed file, and return their dotted names; a missing section is one of them."""
    try:
        Params.model_validate(document)
    except ValidationError as error:
        places = [fault["loc"] for fault in error.errors(include_url=False) if fault["type"] == "missing"]
    else:
        return []
    shipped = load_yaml(SHIPPED, read_text(SHIPPED))
    names = []
    for *folders, leaf in (list(map(str, place)) for place in places):
        section, known = value_at(document, folders), value_at(shipped, folders)
        if isinstance(known, dict) and leaf in known:  # not a part of a list, nor of an environment
            section[leaf] = known[leaf]
            names.append(".".join([*folders, leaf]))
    return names


def completed(path: Path, text: str) -> tuple[str, list[str]]:
    """The text with its missing params and their comments, each after the param that it follows in the shipped file;
    and their names."""
    names = fill(load_yaml(path, text))
    for name in names:
        text = _with_param(text, read_text(SHIPPED), name)
    return text, names


def complete_file(path: Path, report: Callable[[str], None]) -> None:
    """Write the missing params into a file, and report which."""
    text, names = completed(path, read_text(path))
    if names:
        write_text(path, text)
        report(describe_added(names))


def describe_added(names: list[str]) -> str:
    """The line about params that were missing."""
    return f"params.yaml: added from this version: {', '.join(names)}"


def _with_param(text: str, shipped: str, name: str) -> str:
    """The text, whose other lines stay as they are, with one more param or section."""
    *folders, leaf = name.split(".")
    lines, section, known = text.split("\n"), _node_at(text, folders), _node_at(shipped, folders)
    order = [key.value for key, _ in known.value]
    place = order.index(leaf)
    if section.flow_style:  # {a: 1, b: 2}, which has no room for comments
        end = section.end_mark
        line, value = lines[end.line], value_at(load_yaml(SHIPPED, shipped), name.split("."))
        entry = f"{', ' if section.value else ''}{leaf}: {json.dumps(value)}"
        lines[end.line] = f"{line[: end.column - 1]}{entry}{line[end.column - 1 :]}"
        return "\n".join(lines)
    ends = {key.value: _last_line(value) for key, value in section.value}
    before = [other for other in order[:place] if other in ends]
    beginning = section.value[0][0].start_mark
    at = ends[before[-1]] + 1 if before else beginning.line
    key, value = known.value[place]
    start, shipped_lines = key.start_mark, shipped.split("\n")
    shipped_block = shipped_lines[start.line : _last_line(value) + 1]
    block = [" " * beginning.column + line[start.column :] for line in shipped_block]
    if at and lines[at - 1] and not shipped_lines[start.line - 1]:  # an empty line parts it from what is above
        block = ["", *block]
    return "\n".join([*lines[:at], *block, *lines[at:]])


def _node_at(text: str, folders: list[str]) -> Any:
    """The mapping of a section in a text, with its places."""
    from ruamel.yaml import YAML

    node = YAML(typ="safe", pure=True).compose(text)
    for folder in folders:
        node = next(below for key, below in node.value if key.value == folder)
    return node


def _last_line(node: Any) -> int:
    """The last line of a value: the end of a block is where the next one begins, behind comments and empty lines."""
    if isinstance(node.value, list) and node.value and not node.flow_style:
        last = node.value[-1]
        return _last_line(last[1] if isinstance(last, tuple) else last)
    end = node.end_mark
    return int(end.line if end.column else max(end.line - 1, node.start_mark.line))
