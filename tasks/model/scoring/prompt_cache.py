"""Keys and values of prompts, computed once and without gradients, for completions that attend to them as constants.

What all prompts begin with, worked examples for instance, is computed and held once.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tasks.model.fast_layers.fast_layers import fast_layers
from tasks.model.scoring.hf_model import forward_to_logits
from tasks.model.scoring.micro_batches import common_prefix

if TYPE_CHECKING:
    from torch import Tensor

States = list[tuple["Tensor", "Tensor"]]
"""Keys and values of each layer, [rows, heads, tokens, d]."""


class PromptCache:
    """The keys and values of each prompt but for its last token, whose prediction is a completion's first token."""

    def __init__(self, model: Any, prompts: Iterable[tuple[int, ...]]) -> None:
        """Compute them with the present weights of `model`; later steps do not change them."""
        import torch

        distinct = list(dict.fromkeys(prompts))
        common = common_prefix(distinct)
        with torch.no_grad(), fast_layers(model):
            self._start = _continue(model, distinct[0][:common], []) if common else []
            self._rest = {
                prompt: [
                    (keys[:, :, common:].clone(), values[:, :, common:].clone())
                    for keys, values in _continue(model, prompt[common:-1], self._start)
                ]
                for prompt in distinct
            }

    def expand(self, prompt: tuple[int, ...], rows: int) -> Any:
        """transformers' cache of a prompt for `rows` rows."""
        import torch

        parts = [self._start, self._rest[prompt]] if self._start else [self._rest[prompt]]
        kinds = [[torch.cat(kind, 2) for kind in zip(*layer, strict=True)] for layer in zip(*parts, strict=True)]
        return _cache_of([(keys, values) for keys, values in kinds], rows)


def _continue(model: Any, tokens: tuple[int, ...], states: States) -> States:
    """`states` and those of the tokens that follow."""
    import torch

    if not tokens:
        return states
    cache = _cache_of(states, 1)
    ids = torch.tensor([tokens], device=model.device)
    forward_to_logits(model)(1, input_ids=ids, past_key_values=cache, use_cache=True)
    if cache.get_seq_length() != len(tokens) + (states[0][0].shape[2] if states else 0):
        raise ValueError("its forward pass does not fill the cache")
    return [(layer.keys, layer.values) for layer in cache.layers]


def _cache_of(states: States, rows: int) -> Any:
    from transformers import DynamicCache

    cache = DynamicCache()
    for layer, (keys, values) in enumerate(states):
        cache.update(keys.expand(rows, -1, -1, -1), values.expand(rows, -1, -1, -1), layer)
    return cache
