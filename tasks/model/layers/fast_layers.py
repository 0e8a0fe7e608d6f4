"""Layers with fewer operations: merged or narrow LoRA linears and fused RMS norms; same numbers, to rounding."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tasks.model.layers.lora_linears import merged_linears, narrow_linears
from tasks.model.layers.rms_norm import fused_norms


@contextmanager
def fast_layers(model: Any) -> Iterator[None]:
    """In the block, the model gives the same numbers, to rounding, in less time. The block must not change weights."""
    with merged_linears(model), narrow_linears(model), fused_norms(model):
        yield
