"""Forward pass of any Hugging Face model for its last positions only, to logits or to hidden states."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tasks.model.scoring.token_scores import Head

if TYPE_CHECKING:
    from torch import Tensor

Forward = Callable[..., "Tensor"]
"""(kept, **inputs of the model) → predictions at the last `kept` positions [B, kept, ·]."""


def forward_to_logits(model: Any) -> Forward:
    """Predictions are logits [B, kept, V]; only these are computed, if the model supports `logits_to_keep`."""
    can_keep = "logits_to_keep" in inspect.signature(unwrap_model(model).forward).parameters

    def forward(kept: int, **inputs: Any) -> "Tensor":
        out = model(**inputs, logits_to_keep=kept) if can_keep else model(**inputs)
        return _last(kept, out.logits)

    return forward


def forward_to_hidden(model: Any) -> tuple[Forward, Head]:
    """Predictions are hidden states [B, kept, H]; returned with the head that maps them to logits."""
    decoder, head = unwrap_model(model).get_decoder(), unwrap_model(model).get_output_embeddings()

    def forward(kept: int, **inputs: Any) -> "Tensor":
        return _last(kept, decoder(**inputs).last_hidden_state)

    return forward, head


@contextmanager
def caught_hidden_states(model: Any) -> Iterator["list[Tensor]"]:
    """In the block, the hidden states [B, S, H] below the model's head are added to the list at each forward pass."""
    caught: list[Tensor] = []

    def catch(_module: Any, _inputs: Any, output: Any) -> None:
        caught.append(output.last_hidden_state)

    hook = unwrap_model(model).get_decoder().register_forward_hook(catch)
    try:
        yield caught
    finally:
        hook.remove()


def as_forward(hidden: "Tensor") -> Forward:
    """A forward pass whose predictions are these hidden states [B, S, H]."""
    return lambda kept, **_: _last(kept, hidden)


def _last(kept: int, predicted: "Tensor") -> "Tensor":
    """The last `kept` positions; slicing where all are kept would copy the gradient."""
    return predicted if predicted.shape[1] == kept else predicted[:, -kept:]


def unwrap_model(model: Any) -> Any:
    """The transformers model inside a peft model, or the model itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model
