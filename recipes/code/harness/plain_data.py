"""Plain data between a program under test and its tests: JSON with tags for what JSON lacks. Standard library only.

Only exact built-in types pass, so what is decoded compares as Python compares it, whatever the sender overrides.
"""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

_SCALARS = frozenset((int, float, bool, str, type(None)))
_SEQUENCES: dict[type, str] = {tuple: "tuple", set: "set", frozenset: "frozenset"}
_DICTS = frozenset((dict, Counter, OrderedDict, defaultdict))
_MAKERS: dict[str, Callable[[list[Any]], Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}


def encode(value: Any, keep: Callable[[Any], int]) -> Any:
    """A value for `json.dumps`; `keep` gives the number of an object that is no plain data, or raises TypeError."""
    kind: type = type(value)
    if kind in _SCALARS:
        return value
    if kind is list:
        if _SCALARS.issuperset(map(type, value)):
            return value
        return [encode(item, keep) for item in value]
    if kind in _SEQUENCES:
        return {_SEQUENCES[kind]: [encode(item, keep) for item in value]}
    if kind in _DICTS:
        return {"dict": [[encode(key, keep), encode(item, keep)] for key, item in dict.items(value)]}
    if kind is bytes:
        return {"bytes": value.hex()}
    if kind is complex:
        return {"complex": [value.real, value.imag]}
    return {"object": keep(value)}


def decode(data: Any, find: Callable[[int], Any]) -> Any:
    """The value of what `encode` wrote; `find` gives the object of a number. Raises ValueError or TypeError."""
    if type(data) is list:
        if _SCALARS.issuperset(map(type, data)):
            return data
        return [decode(item, find) for item in data]
    if type(data) is not dict:
        return data
    ((tag, inner),) = data.items()
    if tag in _MAKERS:
        return _MAKERS[tag]([decode(item, find) for item in inner])
    if tag == "dict":
        return {decode(key, find): decode(item, find) for key, item in inner}
    if tag == "bytes":
        return bytes.fromhex(inner)
    if tag == "complex":
        return complex(*inner)
    if tag == "object" and type(inner) is int:
        return find(inner)
    raise ValueError(f"no plain data: {tag!r:.40}")
