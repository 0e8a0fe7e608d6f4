"""Running a model for its last positions alone, through what every Hugging Face model offers."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tasks.model.scoring.token_scores import Head

if TYPE_CHECKING:
    from torch import Tensor

Run = Callable[..., tuple["Tensor", Any]]
"""(kept, **inputs of the model) → what is predicted at the last `kept` positions [B, kept, ·], and the cache."""


def run_to_logits(model: Any) -> Run:
    """Predictions are logits [B, kept, V]; only these are computed, where the model can do that."""
    plain = plain_model(model)
    can_keep = "logits_to_keep" in inspect.signature(plain.forward).parameters

    def run(kept: int, **inputs: Any) -> tuple["Tensor", Any]:
        out = model(**inputs, logits_to_keep=kept) if can_keep else model(**inputs)
        return _last(kept, out.logits), getattr(out, "past_key_values", None)

    return run


def run_to_hidden(model: Any) -> tuple[Run, Head]:
    """Predictions are hidden states [B, kept, H], and the head that makes logits of them."""
    plain = plain_model(model)
    decoder, head = plain.get_decoder(), plain.get_output_embeddings()

    def run(kept: int, **inputs: Any) -> tuple["Tensor", Any]:
        out = decoder(**inputs)
        return _last(kept, out.last_hidden_state), getattr(out, "past_key_values", None)

    return run, head


def _last(kept: int, predicted: "Tensor") -> "Tensor":
    """The last `kept` positions; a slice of all of them would cost a copy of the gradient."""
    return predicted if predicted.shape[1] == kept else predicted[:, -kept:]


def plain_model(model: Any) -> Any:
    """The transformers model in a peft model, or the model itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model
