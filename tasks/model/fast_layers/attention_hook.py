"""Replace a model's attention function, through transformers' attention interface."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

Attend = Callable[[Any, "Tensor", "Tensor", "Tensor", Any, float], "Tensor"]
"""(layer, query [B, heads, T, d], key and value [B, kv, S, d], the forward's keyword, scale) → [B, T, heads, d]."""


@contextmanager
def use_attention(model: Any, name: str, attend: Attend) -> Iterator[None]:
    """In the block, each attention layer of `model` calls `attend`, with the keyword `name` of its forward and no mask.

    It has no effect on models that do not use the interface: callers must check the numbers. A layer that needs more
    than a softmax of scaled scores, or is not given the keyword, raises ValueError.
    """
    from transformers import AttentionInterface

    def attention(
        layer: Any,
        query: "Tensor",
        key: "Tensor",
        value: "Tensor",
        _mask: Any,
        scaling: float | None = None,
        **settings: Any,
    ) -> tuple["Tensor", None]:
        check_plain_softmax(settings)
        if settings.get(name) is None:
            raise ValueError(f"its forward pass does not hand {name} on to its attention")
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        return attend(layer, query, key, value, settings[name], scale), None

    AttentionInterface.register(name, attention)
    own = model.config._attn_implementation
    model.config._attn_implementation = name  # model.set_attn_implementation takes thirty times as long
    try:
        yield
    finally:
        model.config._attn_implementation = own


def check_plain_softmax(settings: dict[str, Any]) -> None:
    """Raises ValueError where a layer needs more than a softmax of scaled scores."""
    if more := [name for name in ("softcap", "s_aux") if settings.get(name) is not None]:
        raise ValueError(f"its attention has {more[0]}")
