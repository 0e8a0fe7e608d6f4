"""YAML parsed once for each text.

DVC parses `dvc.yaml`, `dvc.lock` and `params.yaml` again for each stage that it looks at, which took two thirds of
a run in which nothing had to be computed.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from dvc.utils import strictyaml
from dvc.utils.serialize import _yaml

from flows.dvc_stages.patches.lock_entries import parse_lock

Parse = Callable[..., Any]
KEPT = 8
"""Texts: the three files, and those of a commit that they are compared with."""


def remember_parsed() -> None:
    """From now on DVC parses no text of the last few twice in this process."""
    if not hasattr(_yaml.parse_yaml, "__wrapped__"):
        _yaml.parse_yaml = strictyaml.parse_yaml = remembering(_yaml.parse_yaml)


def remembering(parse: Parse) -> Parse:
    """`parse`, but of a text that was parsed before, its result is a copy of what came of it then."""
    known: dict[str, Any] = {}

    @wraps(parse)
    def remembered(text: str, path: str, typ: str = "safe") -> Any:
        if typ != "safe":
            return parse(text, path, typ)  # to be written again: comments and style hang on what the writer changes
        if text not in known:
            if len(known) >= KEPT:
                del known[next(iter(known))]
            known[text] = parse_lock(text) or parse(text, path, typ)
        return _copied(known[text])

    return remembered


def _copied(value: Any) -> Any:
    """`copy.deepcopy` of plain data, at a fifth of its time."""
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value
