"""Prefill and decoding steps with a transformers model's own forward pass."""

import inspect
from typing import TYPE_CHECKING, Any

from tasks.model.sampling.prefix_attention import Prefix, use_prefix_attention

if TYPE_CHECKING:
    from torch import Tensor


class HfForward:
    """Any model that takes `input_ids` and `past_key_values`."""

    def __init__(self, model: Any) -> None:
        self._model, self._parameters = model, inspect.signature(model.forward).parameters
        is_sdpa = getattr(model.config, "_attn_implementation", None) == "sdpa"
        can_hook = is_sdpa and getattr(model, "_supports_attention_backend", False)
        self.supports_prefix = can_hook and "position_ids" in self._parameters

    def prefill(self, ids: "Tensor", seen: "Tensor | None", positions: "Tensor | None", cache: Any) -> "Tensor":
        """Logits [C, V] after the next P tokens of contexts, which are put into the cache after the T that it has.

        `seen` [C, T + P] True = a token, None if T is 0 and there is no padding; `positions` [C, P].
        """
        return self._run(ids, cache, **self._masked(seen, positions), **self._accepted(logits_to_keep=1))

    def decode(self, ids: "Tensor", positions: "Tensor", cache: Any, prefix: Prefix) -> "Tensor":
        """Logits [B, V] after one more token [B] of each row, at positions [B]; it is put into the cache."""
        with use_prefix_attention(self._model):
            return self._run(ids[:, None], cache, position_ids=positions[:, None], row_prefix=prefix)

    def decode_masked(self, ids: "Tensor", positions: "Tensor", cache: Any, seen: "Tensor | None") -> "Tensor":
        """The same with the model's own attention over the whole cache, masked by `seen` [B, S]."""
        return self._run(ids[:, None], cache, **self._masked(seen, positions[:, None]))

    def _run(self, ids: "Tensor", cache: Any, **inputs: Any) -> "Tensor":
        logits: Tensor = self._model(input_ids=ids, past_key_values=cache, use_cache=True, **inputs).logits
        return logits[:, -1]

    def _masked(self, seen: "Tensor | None", positions: "Tensor | None") -> dict[str, Any]:
        """Mask and positions; nothing where there is no padding."""
        return {} if seen is None else self._accepted(attention_mask=seen.long(), position_ids=positions)

    def _accepted(self, **inputs: Any) -> dict[str, Any]:
        """Those that the model accepts: some compute positions themselves, some give all logits."""
        return {name: value for name, value in inputs.items() if name in self._parameters}
