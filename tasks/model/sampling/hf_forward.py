"""A transformers model's own forward pass, as the decoding loop asks for it."""

import inspect
from typing import TYPE_CHECKING, Any

from tasks.model.sampling.prefix_attention import Prefix, prefix_attention

if TYPE_CHECKING:
    from torch import Tensor


class PlainForward:
    """Any model that takes `input_ids` and `past_key_values`."""

    def __init__(self, model: Any, told: bool) -> None:
        """`told`: its attention may be told what to do, where it asks transformers for it."""
        self._model, self._named = model, inspect.signature(model.forward).parameters
        usual = getattr(model.config, "_attn_implementation", None) == "sdpa"
        self.can_be_told = told and usual and "position_ids" in self._named

    def read(self, ids: "Tensor", seen: "Tensor | None", positions: "Tensor | None", cache: Any) -> "Tensor":
        """Logits [C, V] after contexts [C, P], which are put into the cache.

        `seen` [C, P] True = a token, None where all are, and `positions` [C, P].
        """
        return self._run(ids, cache, **self._placed(seen, positions), **self._asked(logits_to_keep=1))

    def follow(self, ids: "Tensor", positions: "Tensor", cache: Any, prefix: Prefix) -> "Tensor":
        """Logits [B, V] after one more token [B] of each row, at positions [B]; it is put into the cache."""
        with prefix_attention(self._model):
            return self._run(ids[:, None], cache, position_ids=positions[:, None], row_prefix=prefix)

    def follow_masked(self, ids: "Tensor", positions: "Tensor", cache: Any, seen: "Tensor | None") -> "Tensor":
        """The same with the model's own attention on all that the cache holds, by `seen` [B, S]."""
        return self._run(ids[:, None], cache, **self._placed(seen, positions[:, None]))

    def _run(self, ids: "Tensor", cache: Any, **inputs: Any) -> "Tensor":
        logits: Tensor = self._model(input_ids=ids, past_key_values=cache, use_cache=True, **inputs).logits
        return logits[:, -1]

    def _placed(self, seen: "Tensor | None", positions: "Tensor | None") -> dict[str, Any]:
        """What tells padding from tokens; nothing where there is none."""
        return {} if seen is None else self._asked(attention_mask=seen.long(), position_ids=positions)

    def _asked(self, **inputs: Any) -> dict[str, Any]:
        """Those that the model names: some models find positions by themselves, some give all logits."""
        return {name: value for name, value in inputs.items() if name in self._named}
