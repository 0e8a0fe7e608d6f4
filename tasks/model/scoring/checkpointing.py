"""Activation checkpointing: a decoder layer keeps its input alone and is computed again in the backward pass.

The numbers are the same to the bit. The backward pass runs when the attention of a layout (packed_attention.py) is gone
from the model, so it is put back for the second computation. (Chen et al. 2016, arXiv:1604.06174.)
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tasks.model.fast_layers.patching import patch_forwards
from tasks.model.layers import decoder_layers

PARAM = "update.checkpointing"


@contextmanager
def checkpointed_layers(model: Any, attention: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """In the block, the decoder layers of `model` are checkpointed where gradients are computed.

    `attention` makes the context that a layer is computed in again. Raises GraftError if the model has no such layers.
    """
    layers = decoder_layers(model, PARAM)
    with patch_forwards({layer: _checkpointed(layer.forward, attention) for layer in layers}):
        yield


def _checkpointed(forward: Callable[..., Any], attention: Callable[[], AbstractContextManager[None]]) -> Any:
    import torch

    def attend(*inputs: Any, **settings: Any) -> Any:
        with attention():
            return forward(*inputs, **settings)

    def compute(*inputs: Any, **settings: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*inputs, **settings)
        return torch.utils.checkpoint.checkpoint(
            attend,
            *inputs,
            **settings,
            use_reentrant=False,
            preserve_rng_state=False,  # nothing is drawn
        )

    return compute
