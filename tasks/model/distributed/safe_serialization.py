"""What processes send each other, or leave for a later one, as bytes that can be nothing but data.

Plain values are JSON, tensors safetensors. torch's own ways (`all_gather_object`, `torch.save`) pickle, and reading a
pickle runs what it says. Here a reader makes plain values,
tensors, and data classes of ours from their fields; anything else is refused.
"""

import json
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

PACKAGE = "tasks"
"""Data classes of other packages are neither sent nor made."""

HEAD = 8
"""Bytes that say how long the JSON is; the tensors follow it."""


def packed(value: Any) -> bytes:
    """Plain values, lists, tuples, dicts, tensors and data classes of ours, in any depth.

    Raises TypeError for what is none of these.
    """
    from safetensors.torch import save

    tensors: list[Any] = []
    plain = json.dumps(_plain(value, tensors)).encode()
    return len(plain).to_bytes(HEAD) + plain + save({str(place): each for place, each in enumerate(tensors)})


def unpacked(content: bytes) -> Any:
    """What was packed. Raises ValueError where it is not such, however it came to be."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    end = HEAD + int.from_bytes(content[:HEAD])
    try:
        return _value(json.loads(content[HEAD:end]), load(content[end:]))
    except (AttributeError, ImportError, KeyError, RecursionError, SafetensorError, TypeError, ValueError) as error:
        raise ValueError(f"not what a process of ours has packed ({type(error).__name__}: {error})") from None


def _plain(value: Any, tensors: list[Any]) -> Any:
    """A list begins with the kind of what follows in it; whatever is no list stands for itself."""
    import torch

    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, torch.Tensor):
        tensors.append(value.detach().cpu().clone(memory_format=torch.contiguous_format))  # none shares memory
        return ["tensor", len(tensors) - 1]
    if isinstance(value, list | tuple):
        return [type(value).__name__, *(_plain(each, tensors) for each in value)]
    if isinstance(value, dict):
        return ["dict", *([_plain(key, tensors), _plain(each, tensors)] for key, each in value.items())]
    if is_dataclass(value) and type(value).__module__.partition(".")[0] == PACKAGE:
        name = f"{type(value).__module__}:{type(value).__name__}"
        return ["record", name, *(_plain(getattr(value, field.name), tensors) for field in fields(value))]
    raise TypeError(f"{type(value).__name__} is not sent between processes")


def _value(plain: Any, tensors: dict[str, Any]) -> Any:
    if not isinstance(plain, list):
        return plain
    kind, *rest = plain
    if kind == "tensor":
        return tensors[str(rest[0])]
    if kind == "dict":
        return {_value(key, tensors): _value(each, tensors) for key, each in rest}
    if kind == "record":
        return _class(rest[0])(*(_value(each, tensors) for each in rest[1:]))
    found = [_value(each, tensors) for each in rest]
    return {"list": found, "tuple": tuple(found)}[kind]


def _class(name: str) -> Any:
    module, _, own = name.partition(":")
    if module.partition(".")[0] != PACKAGE:
        raise ValueError(f"{name} is none of ours")
    found = getattr(import_module(module), own)
    if not is_dataclass(found) or not isinstance(found, type) or found.__module__ != module:
        raise ValueError(f"{name} is no data class")
    return found
