"""A model's layers as they cost least, while a gradient is computed or a completion sampled."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tasks.model.fast_layers.merged_lora import merged_linears
from tasks.model.fast_layers.rms_norm import fused_norms


@contextmanager
def fast_layers(model: Any) -> Iterator[None]:
    """While the block runs, the model gives the same numbers, to rounding, at less cost.

    The block must not change weights, and a second forward pass through the same layer is fine.
    """
    with merged_linears(model), fused_norms(model):
        yield
