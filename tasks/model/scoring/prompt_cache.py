"""Keys and values of prompts, computed once and without gradients, as constants for the completions that follow them.

What all prompts begin with, worked examples for instance, is computed and held once. Each row of a completion attends
to them and to itself: with T tokens a row, and P of its prompt after the C that all prompts begin with, there are
R T (C + P + T) pairs; the product with the common keys is one for all rows.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers.cache_utils import DynamicCache

from tasks.model.decoding.growing_cache import common_prefix
from tasks.model.hf_model import cache_argument, forward_to_logits, use_attention
from tasks.model.layers.fast_layers import fast_layers
from tasks.model.scoring.device_copy import to_device


@dataclass(frozen=True)
class PromptStates:
    """The keys and values that R rows attend to before their own, by layer; [2, …] are keys, then values."""

    common: list[Tensor]  # [2, kv, C, d] of the tokens that all prompts begin with; C may be 0
    prompts: list[Tensor]  # [2, D, kv, P, d] of the other tokens of each of D prompts, padded on the left
    padding: Tensor  # [D, P] True = padding
    owner: Tensor  # [R] the prompt of each row


class PromptCache:
    """The keys and values of each prompt but for its last token, whose prediction is a completion's first token."""

    def __init__(self, model: Any, prompts: Iterable[tuple[int, ...]], tokens: int) -> None:
        """Compute them with the present weights of `model`; later steps do not change them.

        A forward pass has at most `tokens` tokens, padding included, or one prompt. Raises ValueError where the model
        does not fill a cache.
        """
        distinct = sorted(dict.fromkeys(prompts), key=len)
        common = common_prefix(distinct)
        with torch.no_grad(), fast_layers(model):
            [first] = _continue(model, [distinct[0][: max(common, 1)]], [])
            self._common = first if common else [layer[:, :, :0] for layer in first]
            self._others = {
                prompt: states
                for batch in _batches(distinct, common, tokens)
                for prompt, states in zip(
                    batch, _continue(model, [prompt[common:-1] for prompt in batch], self._common), strict=True
                )
            }

    def states(self, prompts: Sequence[tuple[int, ...]]) -> PromptStates:
        """For R rows with these prompts."""
        places = {prompt: place for place, prompt in enumerate(dict.fromkeys(prompts))}
        others = [self._others[prompt] for prompt in places]
        sizes = torch.tensor([cached[0].shape[2] for cached in others])
        width = int(sizes.max())
        owner = torch.tensor([places[prompt] for prompt in prompts])
        lengths, owner = to_device([sizes, owner], others[0][0].device)
        padded = ([pad(layer, (0, 0, width - layer.shape[2], 0)) for layer in cached] for cached in others)
        return PromptStates(
            self._common,
            [torch.stack(layers, 1) for layers in zip(*padded, strict=True)],
            torch.arange(width, device=lengths.device) < width - lengths[:, None],
            owner,
        )


def _batches(prompts: Sequence[tuple[int, ...]], common: int, tokens: int) -> list[list[tuple[int, ...]]]:
    """Prompts, which are sorted by length, in batches of at most `tokens` tokens after the common ones, or of one."""
    batches: list[list[tuple[int, ...]]] = [[]]
    for prompt in prompts:
        if batches[-1] and (len(batches[-1]) + 1) * (len(prompt) - common) > tokens:
            batches.append([])
        batches[-1].append(prompt)
    return batches


def _continue(model: Any, rows: Sequence[tuple[int, ...]], states: list[Tensor]) -> list[list[Tensor]]:
    """The keys and values [2, kv, tokens, d] of each layer of each row, all of which continue the `states`.

    Rows are padded on the right, where no token attends to the padding.
    """
    width = max(map(len, rows))
    if not width:
        return [[layer[:, :, :0] for layer in states] for _ in rows]
    cache, start = DynamicCache(), states[0].shape[2] if states else 0
    for layer, (keys, values) in enumerate(states if start else []):
        cache.update(keys.expand(len(rows), -1, -1, -1), values.expand(len(rows), -1, -1, -1), layer)
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=model.device)
    forward_to_logits(model)(1, input_ids=ids, use_cache=True, **{cache_argument(model): cache})
    if cache.get_seq_length() != start + width:
        raise ValueError("its forward pass does not fill the cache")
    layers = [torch.stack([layer.keys, layer.values]) for layer in cache.layers]
    return [
        [layer[:, row, :, start : start + len(tokens)].clone() for layer in layers] for row, tokens in enumerate(rows)
    ]


def use_prompt_attention(model: Any) -> AbstractContextManager[None]:
    """In the block, `model` attends by the `prompt_states` that its forward is given; a completion per row, no mask."""
    return use_attention(model, "prompt_states", _attend_prompts)


def _attend_prompts(
    layer: Any, query: Tensor, key: Tensor, value: Tensor, states: PromptStates, scale: float
) -> Tensor:
    """Query [R, heads, T, d], key and value [R, kv, T, d] → [R, T, heads, d]; differentiable in these three."""
    rows, heads, tokens, size = query.shape
    common_keys, common_values = states.common[layer.layer_idx].to(query.dtype)
    prompt_keys, prompt_values = states.prompts[layer.layer_idx][:, states.owner].to(query.dtype)
    queries = (query * scale).reshape(rows, key.shape[1], -1, size)  # [R, kv, heads / kv · T, d]
    to_prompts = (queries @ prompt_keys.mT).masked_fill(states.padding[states.owner, None, None], -torch.inf)
    later = torch.ones(tokens, tokens, dtype=torch.bool, device=query.device).triu(1)
    to_own = (queries @ key.mT).masked_fill(later.repeat(queries.shape[2] // tokens, 1), -torch.inf)
    scores = torch.cat([_by_common(queries, common_keys.mT), to_prompts, to_own], -1)
    weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(value.dtype)
    to_common, to_prompts, to_own = torch.split(weights, [common_keys.shape[1], prompt_keys.shape[2], tokens], -1)
    attended: Tensor = _by_common(to_common, common_values) + to_prompts @ prompt_values + to_own @ value
    return attended.reshape(rows, heads, tokens, size).transpose(1, 2)


def _by_common(x: Tensor, matrices: Tensor) -> Tensor:
    """x [R, kv, n, a] by matrices [kv, a, b], which all rows share → [R, kv, n, b]."""
    rows, kv, n, _ = x.shape
    products: Tensor = x.transpose(0, 1).reshape(kv, rows * n, -1) @ matrices
    return products.view(kv, rows, n, -1).transpose(0, 1)
