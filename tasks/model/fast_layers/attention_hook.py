"""Replace a model's attention function, through transformers' attention interface."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def use_attention(model: Any, name: str, attention: Callable[..., Any]) -> Iterator[None]:
    """In the block, each attention layer of `model` calls `attention`, with the other keywords of its forward.

    It has no effect on models that do not use the interface: callers must check the numbers.
    """
    from transformers import AttentionInterface

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
