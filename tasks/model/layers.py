"""The decoder layers of a Hugging Face model."""

from typing import Any

from tasks.errors import GraftError


def decoder_layers(model: Any, asked_by: str) -> list[Any]:
    """The layers, from the first to the last. Raises GraftError if it has none, which names the param `asked_by`."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    found = _outermost(model, GradientCheckpointingLayer)
    if not found:
        raise GraftError(f"{asked_by}: this model is not made of transformers' decoder layers; set it to false")
    return found


def _outermost(module: Any, kind: type) -> list[Any]:
    if isinstance(module, kind):
        return [module]
    return [layer for child in module.children() for layer in _outermost(child, kind)]
