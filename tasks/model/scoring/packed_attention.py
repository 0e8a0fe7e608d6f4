"""Attention of a row that holds many prompts with their completions, without the pairs that the mask would discard.

Dense attention computes all pairs of a row's N tokens. Here the completions of a prompt are in chunks of at most L
tokens, none of them split, and a chunk attends to its prompt and to itself. What all prompts begin with, C tokens, is
there once. For D prompts of at most P tokens after that and K chunks:

    pairs   N²  →  C² + D P (C + P) + K L (C + P + L)

The queries of one key-value head are rows of one matrix product. The gradient is hand-written, so that queries, keys
and values are gathered once in the forward pass and their gradients once in the backward pass. It keeps the attention
weights, which are large for long prompts or completions.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from tasks.model.hf_model import use_attention

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class QueryBlock:
    """n blocks of M queries each; the queries of a block attend to the same keys."""

    tokens: "Tensor"  # [n, M] each query's token in the row; 0 for padding
    real: "Tensor"  # [n, 1, M, 1] 1 = a token, 0 = padding: computed, dropped, without a gradient
    mask: "Tensor"  # [n, 1, M, keys] added to the scores: 0 = attends, lowest number = does not


@dataclass(frozen=True)
class PackedIndex:
    """Places of the tokens of a row in attention."""

    prefix: QueryBlock  # one block of C queries, the common beginning of all prompts; C may be 0
    prompts: QueryBlock  # D blocks of P queries that attend to the prefix and to their prompt
    chunks: QueryBlock  # K blocks of L queries that attend to a whole prompt and to themselves
    owners: "Tensor"  # [K] the prompt of each chunk
    queries: "Tensor"  # [N] the query of each token of the row, among C + D · P + K · L


def index_packed_row(
    prefix: Sequence[int],
    prompts: Sequence[Sequence[int]],
    chunks: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    owners: Sequence[int],
    dtype: Any,
    device: Any = "cpu",
) -> PackedIndex:
    """From the places in the row of the tokens of the prefix, of each prompt after it and of each chunk, the completion
    of each token of a chunk, and the prompt of each chunk. Every token of the row is in one of them; `dtype` is that of
    the attention."""
    import torch

    common = torch.tensor([list(prefix)], dtype=torch.long)  # [1, C]
    first, second = _padded(prompts), _padded(chunks)  # [D, P], [K, L] -1 = none
    completion = _padded(completions)
    start, row, place = (torch.arange(tokens.shape[1]) for tokens in (common, first, second))
    itself = (place[:, None] >= place) & (completion[:, :, None] == completion[:, None, :])  # [K, L, L]
    before = torch.ones(len(first), len(row), len(start), dtype=torch.bool)  # [D, P, C]
    causal = (row[:, None] >= row).expand(len(first), -1, -1)
    seen = torch.cat([before[:, 0], first >= 0], -1)  # [D, C + P]
    prompt = seen[list(owners)][:, None].expand(-1, len(place), -1)  # [K, L, C + P]
    queries = torch.cat([common.flatten(), first.flatten(), second.flatten()])
    of_tokens = torch.empty(int(queries.max()) + 1, dtype=torch.long)
    of_tokens[queries[queries >= 0]] = (queries >= 0).nonzero()[:, 0]
    return PackedIndex(
        prefix=_block(common, (start[:, None] >= start)[None], dtype, device),
        prompts=_block(first, torch.cat([before, causal], -1), dtype, device),
        chunks=_block(second, torch.cat([prompt, itself], -1), dtype, device),
        owners=torch.tensor(owners, device=device),
        queries=of_tokens.to(device),
    )


def _block(tokens: "Tensor", attends: "Tensor", dtype: Any, device: Any) -> QueryBlock:
    """From tokens [n, M], -1 = padding, and the keys they attend to [n, M, keys]."""
    import torch

    mask = torch.zeros(attends.shape, dtype=dtype).masked_fill_(~attends, torch.finfo(dtype).min)
    real = (tokens >= 0)[:, None, :, None].to(dtype)
    return QueryBlock(tokens.clamp(min=0).to(device), real.to(device), mask[:, None].to(device))


def _padded(rows: Sequence[Sequence[int]]) -> "Tensor":
    import torch

    width = max(1, *map(len, rows))
    return torch.tensor([[*row, *[-1] * (width - len(row))] for row in rows])


def use_packed_attention(model: Any) -> AbstractContextManager[None]:
    """In the block, `model` attends by the `packed_index` that its forward is given; one row, no mask."""
    return use_attention(model, "packed_index", _attend_packed)


def _attend_packed(
    _layer: Any, query: "Tensor", key: "Tensor", value: "Tensor", index: PackedIndex, scale: float
) -> "Tensor":
    return packed_attention(query, key, value, index, scale)


def packed_attention(query: "Tensor", key: "Tensor", value: "Tensor", index: PackedIndex, scale: float) -> "Tensor":
    """query [1, heads, N, d], key and value [1, kv, N, d] → [1, N, heads, d]; differentiable."""
    import torch

    with torch.autocast(value.device.type, enabled=False):  # all in the type that autocast gave to the values
        return _function().apply(query.to(value.dtype), key.to(value.dtype), value, index, scale)  # type: ignore[no-any-return]


@cache
def _function() -> Any:
    import torch
    from torch.autograd.function import once_differentiable

    class PackedAttention(torch.autograd.Function):
        """The prefix, prompts after it, then chunks on their prompts; saved for each: q, k, v, weights, output."""

        @staticmethod
        def forward(
            ctx: Any, query: "Tensor", key: "Tensor", value: "Tensor", index: PackedIndex, scale: float
        ) -> "Tensor":
            of_prefix = [_queries(x, index.prefix) for x in (query, key, value)]
            of_prompts = [_queries(x, index.prompts) for x in (query, key, value)]
            of_chunks = [_queries(x, index.chunks) for x in (query, key, value)]
            for i in (1, 2):
                of_prompts[i] = torch.cat([of_prefix[i].expand(len(of_prompts[i]), -1, -1, -1), of_prompts[i]], 2)
                of_chunks[i] = torch.cat([of_prompts[i].index_select(0, index.owners), of_chunks[i]], 2)
            of_prefix += _attend(of_prefix, index.prefix.mask, scale)
            of_prompts += _attend(of_prompts, index.prompts.mask, scale)
            of_chunks += _attend(of_chunks, index.chunks.mask, scale)
            ctx.save_for_backward(*of_prefix, *of_prompts, *of_chunks)
            ctx.index, ctx.scale = index, scale
            return _tokens([of_prefix[-1], of_prompts[-1], of_chunks[-1]], index)

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, gradient: "Tensor") -> tuple[Any, ...]:
            index: PackedIndex = ctx.index
            above, saved = gradient.transpose(1, 2), ctx.saved_tensors
            parts = (saved[:5], index.prefix), (saved[5:10], index.prompts), (saved[10:], index.chunks)
            of_prefix, of_prompts, of_chunks = (
                _gradients(part, _queries(above, block) * block.real.to(above.dtype), ctx.scale)
                for part, block in parts
            )
            common, (prompts, width) = index.prefix.tokens.shape[1], index.prompts.tokens.shape
            owned = torch.nn.functional.one_hot(index.owners, prompts).T.to(gradient.dtype)  # [D, K]
            for i in (1, 2):  # a prompt's keys and values serve its chunks too, and those of the prefix all prompts
                shared, of_chunks[i] = of_chunks[i][:, :, : common + width], of_chunks[i][:, :, common + width :]
                of_prompts[i] += (owned @ shared.flatten(1)).view(of_prompts[i].shape)
                of_prefix[i] += of_prompts[i][:, :, :common].sum(0, keepdim=True)
                of_prompts[i] = of_prompts[i][:, :, common:]
            each = zip(of_prefix, of_prompts, of_chunks, strict=True)
            return *(_tokens(one, index).transpose(1, 2) for one in each), None, None

    return PackedAttention


def _queries(x: "Tensor", block: QueryBlock) -> "Tensor":
    """Tokens [1, h, N, d] → queries [blocks, h, queries, d]."""
    _, heads, _, size = x.shape
    flat = x.transpose(1, 2).reshape(-1, heads * size)
    return flat.index_select(0, block.tokens.flatten()).view(*block.tokens.shape, heads, size).transpose(1, 2)


def _tokens(parts: "Sequence[Tensor]", index: PackedIndex) -> "Tensor":
    """Queries [1, h, C, d], [D, h, P, d] and [K, h, L, d] → tokens [1, N, h, d]."""
    import torch

    _, heads, _, size = parts[0].shape
    rows = [x.transpose(1, 2).reshape(-1, heads * size) for x in parts]
    return torch.cat(rows).index_select(0, index.queries).view(1, -1, heads, size)


def _attend(inputs: "Sequence[Tensor]", mask: "Tensor", scale: float) -> list["Tensor"]:
    """q [n, heads, M, d], k and v [n, kv, t, d], mask [n, 1, M, t] → weights [n, heads, M, t], output as q."""
    import torch

    q, k, v = inputs
    keys, values = k.flatten(0, 1), v.flatten(0, 1)
    scores = torch.bmm(_by_keys(q * scale, k), keys.mT)
    wide = torch.promote_types(scores.dtype, torch.float32)
    weights = scores.view(*q.shape[:-1], k.shape[2]).add_(mask).softmax(-1, dtype=wide).to(q.dtype)
    return [weights, torch.bmm(_by_keys(weights, k), values).view(q.shape)]


def _by_keys(x: "Tensor", k: "Tensor") -> "Tensor":
    """Queries [n, heads, M, w] as rows of their key-value heads, [n · kv, heads / kv · M, w]; M may be 0."""
    return x.reshape(k.shape[0] * k.shape[1], x.shape[1] // k.shape[1] * x.shape[2], x.shape[3])


def _gradients(saved: "Sequence[Tensor]", above: "Tensor", scale: float) -> "list[Tensor]":
    """Gradients of q, k and v, from the inputs and outputs of `_attend` and the gradient `above` of its output."""
    import torch

    q, k, v, weights, output = saved
    queries, above, output, probabilities = (_by_keys(x, k) for x in (q, above, output, weights))
    keys, values = k.flatten(0, 1), v.flatten(0, 1)
    # Softmax: p (g - Σ p g); the sum over the keys is that of output and its gradient over d (Dao et al. 2022, B.2).
    inner = torch.linalg.vecdot(output, above)[..., None]
    to_scores = torch.bmm(above, values.mT).sub_(inner).mul_(probabilities).mul_(scale)
    parts = torch.bmm(to_scores, keys), torch.bmm(to_scores.mT, queries), torch.bmm(probabilities.mT, above)
    return [part.view(x.shape) for part, x in zip(parts, (q, k, v), strict=True)]
