"""Conversion of an older `params.yaml`: the shipped file with the values of the old one."""

import re
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from tasks.artifacts import read_text
from tasks.errors import GraftError
from tasks.params.file import assign, keys_of, leaf_of, remedy, round_trip_yaml, validate, value_at
from tasks.params.params import Params
from tasks.params.renames import IMPLIED, RENAMED_VALUES, own_param, present_name, removal_of
from tasks.params.strict_yaml import load_yaml

SHIPPED = Path(__file__).with_name("shipped.yaml")
"""A copy of the repository's own params.yaml, by `python -m docs.reference`."""

KEYS = frozenset(keys_of(Params))
"""All present params and sections."""


class Conversion(NamedTuple):
    """The text of the present form, and the params that were removed: what happens instead → their names and values."""

    text: str
    removed: dict[str, list[str]]


def convert(path: Path, text: str) -> Conversion:
    """The text of `path` in the present form; unchanged where it is valid.

    Raises GraftError that names a param or a value which has no meaning any more.
    """
    try:
        validate(path, text)
    except GraftError:
        return _converted(path, text)
    return Conversion(text, {})


def _converted(path: Path, text: str) -> Conversion:
    shipped = load_yaml(SHIPPED, read_text(SHIPPED))
    old = dict(_leaves(load_yaml(path, text), shipped))
    document = load_yaml(SHIPPED, read_text(SHIPPED), round_trip_yaml())
    removed: dict[str, list[str]] = {}
    for key, value in old.items():
        present = present_name(key)
        if instead := removal_of(present):
            removed.setdefault(instead, []).append(f"{key}: {value}")
        elif present not in KEYS and own_param(key) is None:
            raise GraftError(f"{path}: no param {key!r}{remedy(key, Params)}")
        elif _has_use(key, old) and value != value_at(shipped, present.split(".")):
            assign(path, document, present, _present_value(present, value))
        if isinstance(value, str) and (implied := IMPLIED.get((present, value))):
            assign(path, document, *implied)
    stream = StringIO()
    round_trip_yaml().dump(document, stream)
    try:
        validate(path, stream.getvalue())
    except GraftError as error:  # its line is one of the new text
        raise GraftError(re.sub(r":\d+: ", ": ", str(error), count=1)) from None
    return Conversion(stream.getvalue(), removed)


def _leaves(values: Mapping[str, Any], shipped: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted name and value of each param of an old file, a mapping that is a value in one piece."""
    for name, value in values.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and (_is_section(present_name(key), shipped) or (not prefix and key not in KEYS)):
            yield from _leaves(value, shipped, f"{key}.")
        else:
            yield key, value


def _is_section(present: str, shipped: Any) -> bool:
    """Whether the shipped file has params below this name, which are not a user's."""
    is_mapping = isinstance(value_at(shipped, present.split(".")), Mapping)
    return is_mapping and any(key.startswith(f"{present}.") for key in KEYS)


def _has_use(key: str, old: Mapping[str, Any]) -> bool:
    """False for what the old file does not use: an engine, params of another environment, or a former default."""
    if leaf_of(key) == "kl_target" and key.replace("target", "horizon") in old:
        return False  # of a token
    if key == "sampler.dtype":
        return old.get("sampler.kind") == "vllm"
    if key == "rewards.environment" and old[key] == {"hard_format": 0.5, "mark": 0.5}:
        return False  # once shipped to everybody; the environment has its own weights now
    own, environment = own_param(key), old.get("environment")
    name = environment.get("name") if isinstance(environment, Mapping) else environment
    name = "code" if old.get("problems.source") == "functions" else _present_value("environment", name)
    return own is None or (name in own.environments and old[key] != own.default)


def _present_value(present: str, value: Any) -> Any:
    present = "environment.name" if present == "environment" else present
    return RENAMED_VALUES.get((present, value), value) if isinstance(value, str) else value
