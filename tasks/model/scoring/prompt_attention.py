"""Attention of completions, a row each, to the constant keys and values of their prompts and to themselves.

With T tokens a row, and P of its prompt after the C that all prompts begin with, there are R T (C + P + T) pairs; the
product with the common keys is one for all rows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tasks.model.fast_layers.attention_hook import use_attention
from tasks.model.scoring.prompt_cache import PromptStates

if TYPE_CHECKING:
    from torch import Tensor


@contextmanager
def use_prompt_attention(model: Any) -> Iterator[None]:
    """In the block, `model` attends by the `prompt_states` that its forward is given; a completion per row, no mask."""
    with use_attention(model, "prompt_states", _attend_prompts):
        yield


def _attend_prompts(
    layer: Any, query: "Tensor", key: "Tensor", value: "Tensor", states: PromptStates, scale: float
) -> "Tensor":
    return prompt_attention(query * scale, key, value, states, layer.layer_idx)


def prompt_attention(query: "Tensor", key: "Tensor", value: "Tensor", states: PromptStates, layer: int) -> "Tensor":
    """Scaled query [R, heads, T, d], key and value [R, kv, T, d] → [R, T, heads, d]; differentiable in these three."""
    import torch

    rows, heads, tokens, size = query.shape
    common_keys, common_values = states.common[layer].to(query.dtype)
    prompt_keys, prompt_values = states.prompts[layer][:, states.owner].to(query.dtype)
    queries = query.reshape(rows, key.shape[1], -1, size)  # [R, kv, heads / kv · T, d]
    to_prompts = (queries @ prompt_keys.mT).masked_fill(states.padding[states.owner, None, None], -torch.inf)
    later = (
        torch.ones(tokens, tokens, dtype=torch.bool, device=query.device).triu(1).repeat(queries.shape[2] // tokens, 1)
    )
    to_own = (queries @ key.mT).masked_fill(later, -torch.inf)
    scores = torch.cat([_by_common(queries, common_keys.mT), to_prompts, to_own], -1)
    weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(value.dtype)
    common, prompts, own = torch.split(weights, [common_keys.shape[1], prompt_keys.shape[2], tokens], -1)
    found: Tensor = _by_common(common, common_values) + prompts @ prompt_values + own @ value
    return found.reshape(rows, heads, tokens, size).transpose(1, 2)


def _by_common(x: "Tensor", matrices: "Tensor") -> "Tensor":
    """x [R, kv, n, a] by matrices [kv, a, b], which all rows share → [R, kv, n, b]."""
    rows, kv, n, _ = x.shape
    products: Tensor = x.transpose(0, 1).reshape(kv, rows * n, -1) @ matrices
    return products.view(kv, rows, n, -1).transpose(0, 1)
