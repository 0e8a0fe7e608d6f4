"""Attention of a row that holds many prompts with their completions, each token looking at little but what it sees.

Dense attention looks at all pairs of a row's N tokens, to throw most of them away. Here the completions of a prompt
stand in chunks of at most L tokens, whole ones in each, and a chunk looks at its prompt and at itself. For D prompts of
at most P tokens and K chunks:

    pairs   N²  →  D P² + K L (P + L)

The queries of one key-value head are rows of one matrix product. The gradient is written by hand, so that a token's
query, key and value are gathered once on the way forward and their gradients once on the way back. The attention
weights are kept for it, which long prompts or completions make large.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from tasks.model.fast_layers.attention_hook import attending, check_plain

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Block:
    """n places of M queries each, the queries of a place looking at the same keys."""

    tokens: "Tensor"  # [n, M] the token of the row that a query is of; 0 where it is of none
    real: "Tensor"  # [n, 1, M, 1] 1 = of a token, 0 = of none: it is computed, dropped, and has no gradient
    mask: "Tensor"  # [n, 1, M, keys] added to the scores: 0 = sees, lowest number = does not


@dataclass(frozen=True)
class Places:
    """Where the tokens of a row stand in attention."""

    prompts: Block  # D places of P queries, that look at their prompt
    chunks: Block  # K places of L queries, that look at a prompt and at themselves
    owners: "Tensor"  # [K] the prompt of each chunk
    of_tokens: "Tensor"  # [N] the query of each token of the row, among D · P + K · L


def places_of(
    prompts: Sequence[Sequence[int]],
    chunks: Sequence[Sequence[int]],
    branches: Sequence[Sequence[int]],
    owners: Sequence[int],
    dtype: Any,
    device: Any = "cpu",
) -> Places:
    """From the tokens of the row that each prompt and each chunk is of, which completion each token of a chunk is of,
    and the prompt of each chunk. Every token of the row is in one of them; `dtype` is that of the attention."""
    import torch

    first, second = _padded(prompts), _padded(chunks)  # [D, P], [K, L] -1 = none
    branch = _padded(branches)
    row, place = torch.arange(first.shape[1]), torch.arange(second.shape[1])
    itself = (place[:, None] >= place) & (branch[:, :, None] == branch[:, None, :])  # [K, L, L]
    prompt = (first >= 0)[list(owners)][:, None].expand(-1, len(place), -1)  # [K, L, P]
    queries = torch.cat([first.flatten(), second.flatten()])
    of_tokens = torch.empty(int(queries.max()) + 1, dtype=torch.long)
    of_tokens[queries[queries >= 0]] = (queries >= 0).nonzero()[:, 0]
    return Places(
        prompts=_block(first, (row[:, None] >= row).expand(len(first), -1, -1), dtype, device),
        chunks=_block(second, torch.cat([prompt, itself], -1), dtype, device),
        owners=torch.tensor(owners, device=device),
        of_tokens=of_tokens.to(device),
    )


def _block(tokens: "Tensor", sees: "Tensor", dtype: Any, device: Any) -> Block:
    """From tokens [n, M], -1 = none, and what they see [n, M, keys]."""
    import torch

    mask = torch.zeros(sees.shape, dtype=dtype).masked_fill_(~sees, torch.finfo(dtype).min)
    real = (tokens >= 0)[:, None, :, None].to(dtype)
    return Block(tokens.clamp(min=0).to(device), real.to(device), mask[:, None].to(device))


def _padded(rows: Sequence[Sequence[int]]) -> "Tensor":
    import torch

    width = max(1, *map(len, rows))
    return torch.tensor([[*row, *[-1] * (width - len(row))] for row in rows])


@contextmanager
def packed_attending(model: Any) -> Iterator[None]:
    """Let `model` attend as the `packed_places` say that its forward is given; one row, no mask."""
    with attending(model, "packed_places", _attention):
        yield


def _attention(
    _module: Any,
    query: "Tensor",
    key: "Tensor",
    value: "Tensor",
    _mask: Any,
    scaling: float | None = None,
    packed_places: Places | None = None,
    **settings: Any,
) -> tuple["Tensor", None]:
    check_plain(settings)
    if packed_places is None:
        raise ValueError("its forward pass does not hand on to its attention where the tokens stand")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return packed_attention(query, key, value, packed_places, scale), None


def packed_attention(query: "Tensor", key: "Tensor", value: "Tensor", places: Places, scale: float) -> "Tensor":
    """query [1, heads, N, d], key and value [1, kv, N, d] → [1, N, heads, d]; differentiable."""
    import torch

    with torch.autocast(value.device.type, enabled=False):  # what autocast made of the values, all the rest is too
        given = query.to(value.dtype), key.to(value.dtype), value
        return _function().apply(*given, places, scale)  # type: ignore[no-any-return]


@cache
def _function() -> Any:
    import torch
    from torch.autograd.function import once_differentiable

    class PackedAttention(torch.autograd.Function):
        """Prompts, then chunks on their prompts and themselves; what is saved of each: q, k, v, weights, output."""

        @staticmethod
        def forward(
            ctx: Any, query: "Tensor", key: "Tensor", value: "Tensor", places: Places, scale: float
        ) -> "Tensor":
            of_prompts = [_queries(x, places.prompts) for x in (query, key, value)]
            of_chunks = [_queries(x, places.chunks) for x in (query, key, value)]
            for i in (1, 2):
                of_chunks[i] = torch.cat([of_prompts[i].index_select(0, places.owners), of_chunks[i]], 2)
            of_prompts += _attend(of_prompts, places.prompts.mask, scale)
            of_chunks += _attend(of_chunks, places.chunks.mask, scale)
            ctx.save_for_backward(*of_prompts, *of_chunks)
            ctx.places, ctx.scale = places, scale
            return _tokens(of_prompts[-1], of_chunks[-1], places)

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, gradient: "Tensor") -> tuple[Any, ...]:
            places: Places = ctx.places
            above, saved = gradient.transpose(1, 2), ctx.saved_tensors
            of_prompts, of_chunks = (
                _gradients(given, _queries(above, block) * block.real.to(above.dtype), ctx.scale)
                for given, block in ((saved[:5], places.prompts), (saved[5:], places.chunks))
            )
            prompts, width = places.prompts.tokens.shape
            owned = torch.nn.functional.one_hot(places.owners, prompts).T.to(gradient.dtype)  # [D, K]
            for i in (1, 2):  # a prompt's keys and values are there for itself and for its chunks
                shared, of_chunks[i] = of_chunks[i][:, :, :width], of_chunks[i][:, :, width:]
                of_prompts[i] += (owned @ shared.flatten(1)).view(of_prompts[i].shape)
            both = zip(of_prompts, of_chunks, strict=True)
            return *(_tokens(*one, places).transpose(1, 2) for one in both), None, None

    return PackedAttention


def _queries(x: "Tensor", block: Block) -> "Tensor":
    """Of each token [1, h, N, d] → of each query [places, h, queries, d]."""
    _, heads, _, size = x.shape
    flat = x.transpose(1, 2).reshape(-1, heads * size)
    return flat.index_select(0, block.tokens.flatten()).view(*block.tokens.shape, heads, size).transpose(1, 2)


def _tokens(of_prompts: "Tensor", of_chunks: "Tensor", places: Places) -> "Tensor":
    """Of each query [D, h, P, d] and [K, h, L, d] → of each token [1, N, h, d]."""
    import torch

    _, heads, _, size = of_prompts.shape
    both = [x.transpose(1, 2).reshape(-1, heads * size) for x in (of_prompts, of_chunks)]
    return torch.cat(both).index_select(0, places.of_tokens).view(1, -1, heads, size)


def _attend(given: "Sequence[Tensor]", mask: "Tensor", scale: float) -> list["Tensor"]:
    """q [n, heads, M, d], k and v [n, kv, t, d], mask [n, 1, M, t] → weights [n, heads, M, t], output as q."""
    import torch

    q, k, v = given
    groups, size = k.shape[0] * k.shape[1], q.shape[-1]
    scores = torch.bmm((q * scale).reshape(groups, -1, size), k.reshape(groups, -1, size).mT)
    weights = scores.view(*q.shape[:-1], -1).add_(mask).softmax(-1, dtype=mask.dtype).to(q.dtype)
    output = torch.bmm(weights.view(groups, -1, k.shape[2]), v.reshape(groups, -1, size))
    return [weights, output.view(q.shape)]


def _gradients(given: "Sequence[Tensor]", above: "Tensor", scale: float) -> "list[Tensor]":
    """Of q, k and v, from what was given to `_attend` and what it gave, and the gradient `above` of its output."""
    import torch

    q, k, v, weights, output = given
    groups, size = k.shape[0] * k.shape[1], q.shape[-1]
    queries, keys, values, above, output = (x.reshape(groups, -1, size) for x in (q, k, v, above, output))
    chances = weights.view(groups, -1, k.shape[2])
    # Softmax: p (g - Σ p g); the sum over the keys is that of output and its gradient over d (Dao et al. 2022, B.2).
    inner = torch.linalg.vecdot(output, above)[..., None]
    to_scores = torch.bmm(above, values.mT).sub_(inner).mul_(chances).mul_(scale)
    parts = torch.bmm(to_scores, keys), torch.bmm(to_scores.mT, queries), torch.bmm(chances.mT, above)
    return [part.view(x.shape) for part, x in zip(parts, (q, k, v), strict=True)]
