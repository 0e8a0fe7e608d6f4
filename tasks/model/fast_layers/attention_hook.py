"""Telling a model's attention what to do, through transformers' attention interface."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def use_attention(model: Any, name: str, attention: Callable[..., Any]) -> Iterator[None]:
    """While the block runs, each attention layer of `model` calls `attention`, with what else its forward is given.

    Models that do not ask the interface take no notice: whoever calls this has to try whether the numbers are right.
    """
    from transformers import AttentionInterface

    AttentionInterface.register(name, attention)
    usual = model.config._attn_implementation
    model.config._attn_implementation = name  # model.set_attn_implementation does this in thirty times the time
    try:
        yield
    finally:
        model.config._attn_implementation = usual


def check_plain_softmax(settings: dict[str, Any]) -> None:
    """Raises ValueError where a layer asks its attention for more than a softmax of scaled scores."""
    if more := [name for name in ("softcap", "s_aux") if settings.get(name) is not None]:
        raise ValueError(f"its attention has {more[0]}")
