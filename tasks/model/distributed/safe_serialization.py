"""Pickle-free serialisation: JSON for plain values, safetensors for tensors.

torch's own functions (`all_gather_object`, `torch.save`) pickle, and unpickling runs arbitrary code. Here only plain
values, tensors, and data classes of `tasks` from their fields are read; anything else is refused.
"""

import json
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

PACKAGE = "tasks"
"""Data classes of other packages are refused."""

HEADER_BYTES = 8
"""Length of the JSON, which follows; then the tensors."""


def serialize(value: Any) -> bytes:
    """Bytes of plain values, lists, tuples, dicts, tensors and data classes of `tasks`, nested to any depth.

    Raises TypeError for any other type.
    """
    from safetensors.torch import save

    tensors: list[Any] = []
    plain = json.dumps(_plain(value, tensors)).encode()
    return len(plain).to_bytes(HEADER_BYTES) + plain + save({str(place): each for place, each in enumerate(tensors)})


def deserialize(content: bytes) -> Any:
    """The value that was serialised. Raises ValueError for any bytes that `serialize` cannot have written."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    end = HEADER_BYTES + int.from_bytes(content[:HEADER_BYTES])
    try:
        return _value(json.loads(content[HEADER_BYTES:end]), load(content[end:]))
    except (AttributeError, ImportError, KeyError, RecursionError, SafetensorError, TypeError, ValueError) as error:
        raise ValueError(f"not bytes that Graft serialised ({type(error).__name__}: {error})") from None


def _plain(value: Any, tensors: list[Any]) -> Any:
    """Lists begin with the kind of their content; other values are unchanged."""
    import torch

    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, torch.Tensor):
        tensors.append(
            value.detach().cpu().clone(memory_format=torch.contiguous_format)
        )  # safetensors refuses shared memory
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
    values = [_value(each, tensors) for each in rest]
    return {"list": values, "tuple": tuple(values)}[kind]


def _class(name: str) -> Any:
    module, _, own = name.partition(":")
    if module.partition(".")[0] != PACKAGE:
        raise ValueError(f"{name} is not of tasks")
    found = getattr(import_module(module), own)
    if not is_dataclass(found) or not isinstance(found, type) or found.__module__ != module:
        raise ValueError(f"{name} is no data class")
    return found
