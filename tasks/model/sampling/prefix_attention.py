"""Attention of rows that are being written on their contexts. It enters a model through its attention interface.

Contexts that several rows share are held once and read once a step: the rows of one context are the rows of one matrix
product with it; what a row wrote itself, it attends to alone (Juravsky et al. 2024, Hydragen, arXiv:2402.05099). Where
there is little to read, or to share, each row holds its own: a third of the operations.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tasks.model.fast_layers.attention_hook import attending, check_plain

if TYPE_CHECKING:
    from torch import Tensor


class OwnPrefix:
    """Contexts that stand before each row's own tokens in the cache."""

    def __init__(self, padding: "Tensor | None", steps: int) -> None:
        """`padding` [B, P] True = no token, None where there is none; at most `steps` tokens follow."""
        from torch.nn.functional import pad

        self._seen = None if padding is None else pad(~padding, (0, steps), value=True)[:, None, None]

    def keep(self, rows: "Tensor") -> None:
        """Only these rows go on."""
        self._seen = None if self._seen is None else self._seen[rows]

    def attend(self, _layer: int, queries: "Tensor", keys: "Tensor", values: "Tensor") -> "Tensor":
        """Attention of scaled queries [B, heads, n, d] on keys and values [B, heads, P + t, d]."""
        from torch.nn.functional import scaled_dot_product_attention

        seen = None if self._seen is None else self._seen[..., : keys.shape[2]]
        return scaled_dot_product_attention(queries, keys, values, seen, scale=1.0)


class SharedPrefix:
    """The prefilled contexts of a batch, and which of its B rows follow which of the C contexts."""

    def __init__(self, cache: Any, padding: "Tensor | None", owner: "Tensor") -> None:
        """`padding` [C, P] True = no token, None where there is none; `owner` [B] names each row's context."""
        self._layers = [(layer.keys, layer.values) for layer in cache.layers]  # [C, heads, P, d]
        self._padding, self._owner = padding, owner
        self._group()

    @property
    def held(self) -> int:
        """Contexts, C."""
        return len(self._layers[0][0])

    def keep(self, rows: "Tensor") -> None:
        """Only these rows go on; a context that none of them follows is forgotten."""
        self._owner = self._owner[rows]
        self._group()

    def give_out(self, own: Any, into: Any, steps: int) -> OwnPrefix:
        """Each row's context, and after it the row's own tokens of cache `own`, put into a new cache."""
        for (keys, values), written, layer in zip(self._layers, own.layers, into.layers, strict=True):
            layer.update(keys[self._owner], values[self._owner])
            if written.is_initialized:
                layer.update(written.keys, written.values)
        return OwnPrefix(None if self._padding is None else self._padding[self._owner], steps)

    def _group(self) -> None:
        """Where each row stands among C groups of G places, and which row fills each place (a free one: the first)."""
        import torch

        used, self._owner = torch.unique(self._owner, return_inverse=True)
        if len(used) < self.held:
            self._layers = [(keys[used], values[used]) for keys, values in self._layers]
            self._padding = None if self._padding is None else self._padding[used]
        sizes = self._owner.bincount()
        order = self._owner.argsort(stable=True)
        rows = torch.arange(len(order), device=order.device)
        nth = rows - (sizes.cumsum(0) - sizes)[self._owner[order]]
        width, heads = int(sizes.max()), torch.arange(self._layers[0][0].shape[1], device=order.device)
        places = torch.empty_like(order)  # of a row's first head
        places[order] = self._owner[order] * len(heads) * width + nth
        self._places = (places[:, None] + heads * width).flatten()  # [B · heads] into [C · heads · G]
        self._members = places.new_zeros(len(used) * len(heads) * width)  # and back
        self._members[self._places] = (rows[:, None] * len(heads) + heads).flatten()

    def attend(self, layer: int, queries: "Tensor", keys: "Tensor", values: "Tensor") -> "Tensor":
        """Attention of scaled queries [B, heads, n, d] on the contexts and on the rows' own keys [B, heads, t, d]."""
        import torch

        contexts, context_values = self._layers[layer]
        width, heads = contexts.shape[2], queries.shape[0] * queries.shape[1]
        rows = queries.reshape(heads, *queries.shape[2:])  # three dimensions: torch.matmul on four is twice as slow
        scores = torch.bmm(self._together(rows, contexts), contexts.flatten(0, 1).mT)
        if self._padding is not None:
            scores.view(*contexts.shape[:2], -1, width).masked_fill_(self._padding[:, None, None], -torch.inf)
        scores = torch.cat(
            [self._apart(scores, rows), torch.bmm(rows, keys.flatten(0, 1).mT)], -1
        )  # [B · heads, n, P + t]
        weights = scores.softmax(-1, dtype=torch.float32).to(values.dtype)
        there = torch.bmm(self._together(weights[..., :width], contexts), context_values.flatten(0, 1))
        own = values.flatten(0, 1)
        return torch.baddbmm(self._apart(there, rows), weights[..., width:], own).view(queries.shape)

    def _together(self, rows: "Tensor", contexts: "Tensor") -> "Tensor":
        """[B · heads, n, w] → [C · heads, G · n, w]"""
        return rows.index_select(0, self._members).view(len(contexts) * contexts.shape[1], -1, rows.shape[-1])

    def _apart(self, groups: "Tensor", rows: "Tensor") -> "Tensor":
        """[C · heads, G · n, w] → [B · heads, n, w]"""
        return groups.view(len(self._members), rows.shape[1], -1).index_select(0, self._places)


Prefix = SharedPrefix | OwnPrefix
"""What stands before the rows, and how they attend to it."""


@contextmanager
def prefix_attention(model: Any) -> Iterator[None]:
    """Let `model` attend by the `row_prefix` that its forward is given; one new token a row, no mask."""
    with attending(model, "row_prefix", _attention):
        yield


def _attention(
    module: Any,
    query: "Tensor",
    key: "Tensor",
    value: "Tensor",
    _mask: Any,
    scaling: float | None = None,
    row_prefix: Prefix | None = None,
    **settings: Any,
) -> tuple["Tensor", None]:
    """query [B, heads, 1, d], key and value [B, kv, t, d] → [B, 1, heads, d]"""
    check_plain(settings)
    if row_prefix is None:
        raise ValueError("its forward pass does not hand the rows' prefix on to its attention")
    rows, heads, _, size = query.shape
    queries = query.view(rows, key.shape[1], -1, size) * (size**-0.5 if scaling is None else scaling)
    return row_prefix.attend(module.layer_idx, queries, key, value).view(rows, 1, heads, -1), None
