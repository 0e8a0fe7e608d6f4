"""Attention of a row that holds many prompts with their completions, without the pairs that the mask would discard.

Dense attention computes all pairs of a row's N tokens. Here the completions of a prompt are in chunks of at most L
tokens, none of them split, and a chunk attends to its prompt and to itself. What all prompts begin with, C tokens, is
there once. For D prompts of at most P tokens after that and K chunks:

    pairs   N²  →  C² + D P (C + P) + K L (C + P + L)

Queries, keys and values are gathered once in the forward pass and their gradients once in the backward pass. The
queries of one key-value head are rows of one product, so that keys and values are not repeated. On a CPU the gradient
is hand-written and keeps the attention weights, which are large for long prompts or completions; elsewhere torch's
fused kernels keep none.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tasks.model.cpu import operations as cpu
from tasks.model.cuda import operations as cuda
from tasks.model.device import for_device
from tasks.model.hf_model import use_attention
from tasks.model.scoring.device_copy import to_device


@dataclass(frozen=True)
class QueryBlock:
    """n blocks of M queries each; the queries of a block attend to the same keys, at least to one."""

    tokens: Tensor  # [n, M] each query's token in the row; 0 for padding
    real: Tensor  # [n, 1, M, 1] True = a token, False = padding: computed, dropped, without a gradient
    attends: Tensor  # [n or 1, 1, M, keys] bool
    _masks: dict[tuple[Any, int, int], Tensor] = field(default_factory=dict)

    def mask(self, dtype: Any, repeats: int = 1, alignment: int = 1) -> Tensor:
        """What is added to the scores, 0 = attends, lowest number = does not: [n or 1, 1, repeats · M, keys].

        It is made for the first layer; the others share it. Rows begin at multiples of `alignment` numbers.
        """
        kind = (dtype, repeats, alignment)
        if kind not in self._masks:
            self._masks[kind] = _additive(self.attends, *kind)
        return self._masks[kind]


@dataclass(frozen=True)
class PackedIndex:
    """Places of the tokens of a row in attention."""

    prefix: QueryBlock  # one block of C queries, the common beginning of all prompts; C may be 0
    prompts: QueryBlock  # D blocks of P queries that attend to the prefix and to their prompt
    chunks: QueryBlock  # K blocks of L queries that attend to a whole prompt and to themselves
    owners: Tensor  # [K] the prompt of each chunk
    queries: Tensor  # [N] the query of each token of the row, among C + D · P + K · L


def index_packed_row(
    prefix: Sequence[int],
    prompts: Sequence[Sequence[int]],
    chunks: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    owners: Sequence[int],
    device: Any = "cpu",
) -> PackedIndex:
    """From the places in the row of the tokens of the prefix, of each prompt after it and of each chunk, the completion
    of each token of a chunk, and the prompt of each chunk. Every token of the row is in one of them."""
    places = [torch.tensor([list(prefix)], dtype=torch.long), _padded(prompts), _padded(chunks)]  # -1 = none
    tokens = torch.cat([rows.flatten() for rows in places])
    queries = (tokens >= 0).nonzero()[:, 0]
    of_tokens = torch.empty_like(queries).index_copy_(0, tokens[queries], queries)
    common, first, second, completion, owner, of_tokens = to_device(
        [*places, _padded(completions), torch.tensor(owners), of_tokens], device
    )  # [1, C], [D, P], [K, L], [K, L], [K], [N]
    start, row, place = (torch.arange(rows.shape[1], device=device) for rows in (common, first, second))
    itself = (place[:, None] >= place) & (completion[:, :, None] == completion[:, None, :])  # [K, L, L]
    before = torch.ones(len(row), len(start), dtype=torch.bool, device=device)  # [P, C]
    seen = torch.cat([before[:1].expand(len(first), -1), first >= 0], -1)  # [D, C + P]
    prompt = seen[owner][:, None].expand(-1, len(place), -1)  # [K, L, C + P]
    return PackedIndex(
        prefix=_block(common, (start[:, None] >= start)[None]),
        prompts=_block(first, torch.cat([before, row[:, None] >= row], -1)[None]),
        chunks=_block(second, torch.cat([prompt, itself], -1)),
        owners=owner,
        queries=of_tokens,
    )


def _block(tokens: Tensor, attends: Tensor) -> QueryBlock:
    """From tokens [n, M], -1 = padding, and the keys they attend to [n or 1, M, keys]."""
    # Padding reads token 0: what it computes is dropped, and its gradient is made 0 by `real`.
    return QueryBlock(tokens.clamp(min=0), (tokens >= 0)[:, None, :, None], attends[:, None])


def _additive(attends: Tensor, dtype: Any, repeats: int, alignment: int) -> Tensor:
    blocks, _, rows, keys = attends.shape
    width = -(-keys // alignment) * alignment
    wide = torch.zeros(blocks, 1, repeats, rows, width, dtype=dtype, device=attends.device)
    return wide[..., :keys].masked_fill_(~attends[:, :, None], torch.finfo(dtype).min).flatten(2, 3)


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    width = max(1, *map(len, rows))
    return torch.tensor([[*row, *[-1] * (width - len(row))] for row in rows])


def use_packed_attention(model: Any) -> AbstractContextManager[None]:
    """In the block, `model` attends by the `packed_index` that its forward is given; one row, no mask."""
    return use_attention(model, "packed_index", lambda _layer, *inputs: packed_attention(*inputs))


def packed_attention(query: Tensor, key: Tensor, value: Tensor, index: PackedIndex, scale: float) -> Tensor:
    """query [1, heads, N, d], key and value [1, kv, N, d] → [1, N, heads, d]; differentiable."""
    attend: Callable[..., Tensor] = for_device(value.device, cpu=cpu.attend_packed, cuda=cuda.attend_packed)
    with torch.autocast(value.device.type, enabled=False):  # all in the type that autocast gave to the values
        of_blocks = _gather(query.to(value.dtype), key.to(value.dtype), value, index)
        blocks = index.prefix, index.prompts, index.chunks
        outputs = [attend(*of_blocks[3 * i : 3 * i + 3], block.mask, scale) for i, block in enumerate(blocks)]
        return _join(*outputs, index)


class Gather(torch.autograd.Function):
    """Queries, keys and values of the prefix, of the prompts after it, and of the chunks on their prompts."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, index: PackedIndex) -> tuple[Tensor, ...]:
        of_prefix = [_queries(x, index.prefix) for x in (query, key, value)]
        of_prompts = [_queries(x, index.prompts) for x in (query, key, value)]
        of_chunks = [_queries(x, index.chunks) for x in (query, key, value)]
        for i in (1, 2):
            of_prompts[i] = torch.cat([of_prefix[i].expand(len(of_prompts[i]), -1, -1, -1), of_prompts[i]], 2)
            of_chunks[i] = torch.cat([of_prompts[i].index_select(0, index.owners), of_chunks[i]], 2)
        ctx.index = index
        return *of_prefix, *of_prompts, *of_chunks

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        index: PackedIndex = ctx.index
        of_prefix, of_prompts, of_chunks = (list(gradients[place : place + 3]) for place in (0, 3, 6))
        common, (prompts, width) = index.prefix.tokens.shape[1], index.prompts.tokens.shape
        owners = torch.arange(prompts, device=index.owners.device)[:, None] == index.owners  # [D, K]
        # Keys that many chunks share: their gradients are summed by a product with 0 and 1, which adds in a fixed
        # order, where autograd's of an index adds in any on a card.
        owned = owners.to(gradients[0].dtype)
        for i in (1, 2):  # a prompt's keys and values serve its chunks too, and those of the prefix all prompts
            shared, of_chunks[i] = of_chunks[i][:, :, : common + width], of_chunks[i][:, :, common + width :]
            direct = of_prompts[i]
            of_prompts[i] = (owned @ shared.flatten(1)).view(direct.shape).add_(direct)
            of_prefix[i] = of_prompts[i][:, :, :common].sum(0, keepdim=True).add_(of_prefix[i])
            of_prompts[i] = of_prompts[i][:, :, common:]
        by_input = zip(of_prefix, of_prompts, of_chunks, strict=True)  # of queries, of keys, of values
        return *(_tokens(parts, index).transpose(1, 2) for parts in by_input), None


class Join(torch.autograd.Function):
    """Outputs of the blocks as tokens; those of padding are dropped."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        *outputs, ctx.index = inputs
        return _tokens(outputs, ctx.index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        above, index = gradient.transpose(1, 2), ctx.index
        blocks = index.prefix, index.prompts, index.chunks
        return *(_queries(above, block) * block.real.to(above.dtype) for block in blocks), None


_gather: Callable[..., tuple[Tensor, ...]] = Gather.apply
_join: Callable[..., Tensor] = Join.apply


def _queries(x: Tensor, block: QueryBlock) -> Tensor:
    """Tokens [1, h, N, d] → queries [blocks, h, queries, d]."""
    _, heads, _, size = x.shape
    flat = x.transpose(1, 2).reshape(-1, heads * size)
    return flat.index_select(0, block.tokens.flatten()).view(*block.tokens.shape, heads, size).transpose(1, 2)


def _tokens(parts: Sequence[Tensor], index: PackedIndex) -> Tensor:
    """Queries [1, h, C, d], [D, h, P, d] and [K, h, L, d] → tokens [1, N, h, d]."""
    _, heads, _, size = parts[0].shape
    rows = [x.transpose(1, 2).reshape(-1, heads * size) for x in parts]
    return torch.cat(rows).index_select(0, index.queries).view(1, -1, heads, size)
