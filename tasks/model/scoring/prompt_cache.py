"""Keys and values of prompts, computed once and without gradients, as constants for the completions that follow them.

What all prompts begin with, worked examples for instance, is computed and held once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.model.fast_layers.fast_layers import fast_layers
from tasks.model.scoring.hf_model import forward_to_logits
from tasks.model.scoring.micro_batches import common_prefix

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class PromptStates:
    """The keys and values that R rows attend to before their own, by layer; [2, …] are keys, then values."""

    common: "list[Tensor]"  # [2, kv, C, d] of the tokens that all prompts begin with; C may be 0
    prompts: "list[Tensor]"  # [2, D, kv, P, d] of the other tokens of each of D prompts, padded on the left
    padding: "Tensor"  # [D, P] True = padding
    owner: "Tensor"  # [R] the prompt of each row


class PromptCache:
    """The keys and values of each prompt but for its last token, whose prediction is a completion's first token."""

    def __init__(self, model: Any, prompts: Iterable[tuple[int, ...]]) -> None:
        """Compute them with the present weights of `model`; later steps do not change them.

        Raises ValueError where the model does not fill a cache.
        """
        import torch

        distinct = list(dict.fromkeys(prompts))
        common = common_prefix(distinct)
        with torch.no_grad(), fast_layers(model):
            whole = [_continue(model, distinct[0][: max(common, 1)], [])]
            whole += [_continue(model, prompt[common:-1], whole[0] if common else []) for prompt in distinct]
        nothing = [layer[:, :, :0] for layer in whole[0]]
        self._common = whole[0] if common else nothing
        self._others = {
            prompt: [layer[:, :, common:].clone() for layer in own or nothing]
            for prompt, own in zip(distinct, whole[1:], strict=True)
        }

    def states(self, prompts: Sequence[tuple[int, ...]]) -> PromptStates:
        """For R rows with these prompts."""
        import torch
        from torch.nn.functional import pad

        places = {prompt: place for place, prompt in enumerate(dict.fromkeys(prompts))}
        others = [self._others[prompt] for prompt in places]
        lengths = torch.tensor([own[0].shape[2] for own in others], device=others[0][0].device)
        width = int(lengths.max())
        padded = ([pad(layer, (0, 0, width - layer.shape[2], 0)) for layer in own] for own in others)
        return PromptStates(
            self._common,
            [torch.stack(layers, 1) for layers in zip(*padded, strict=True)],
            torch.arange(width, device=lengths.device) < width - lengths[:, None],
            torch.tensor([places[prompt] for prompt in prompts], device=lengths.device),
        )


def _continue(model: Any, tokens: tuple[int, ...], states: "list[Tensor]") -> "list[Tensor]":
    """The keys and values [2, kv, tokens, d] of each layer: `states`, and those of the tokens that follow."""
    import torch
    from transformers import DynamicCache

    if not tokens:
        return states
    cache = DynamicCache()
    for layer, (keys, values) in enumerate(states):
        cache.update(keys[None], values[None], layer)
    ids = torch.tensor([tokens], device=model.device)
    forward_to_logits(model)(1, input_ids=ids, past_key_values=cache, use_cache=True)
    if cache.get_seq_length() != len(tokens) + (states[0].shape[2] if states else 0):
        raise ValueError("its forward pass does not fill the cache")
    return [torch.cat([layer.keys, layer.values]) for layer in cache.layers]
