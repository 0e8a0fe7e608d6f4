"""Attention to shared contexts equals attention to a copy per row."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from tasks.model.prefix_attention import SharedPrefix

HEADS, GROUP, SIZE = 2, 3, 4  # key-value heads, queries of each, numbers in each


def prefix_of(
    keys: torch.Tensor, values: torch.Tensor, hidden: torch.Tensor | None, rows: torch.Tensor
) -> SharedPrefix:
    return SharedPrefix(SimpleNamespace(layers=[SimpleNamespace(keys=keys, values=values)]), hidden, rows)


@given(
    owner=st.lists(st.integers(0, 3), min_size=1, max_size=12),
    padding=st.lists(st.integers(0, 4), min_size=4, max_size=4),
    drops=st.lists(st.integers(0, 2**12), max_size=3),
    seed=st.integers(0, 100),
)
@settings(max_examples=60, deadline=None)
def test_rows_attend_as_to_copies_of_their_contexts(owner: Any, padding: Any, drops: Any, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    width, own = 5, 2
    contexts = torch.randn(2, 4, HEADS, width, SIZE, generator=random)
    hidden = torch.arange(width) < torch.tensor(padding)[:, None]
    rows = torch.tensor(owner)
    prefix = prefix_of(*contexts, hidden if hidden.any() else None, rows)
    for drop in [2**12 - 1, *drops]:
        kept = torch.tensor([i for i in range(len(rows)) if drop >> i & 1] or [0])
        prefix.keep(kept)
        rows = rows[kept]
        queries = torch.randn(len(rows), HEADS, GROUP, SIZE, generator=random)
        keys, values = torch.randn(2, len(rows), HEADS, own, SIZE, generator=random)
        found = prefix.attend(0, queries, keys, values)
        seen = torch.cat([~hidden[rows], torch.ones(len(rows), own, dtype=torch.bool)], 1)
        copied = [torch.cat([context[rows], x], 2) for context, x in zip(contexts, (keys, values), strict=True)]
        expected = scaled_dot_product_attention(queries, *copied, attn_mask=seen[:, None, None], scale=1.0)
        assert torch.allclose(found, expected, atol=1e-5)


def test_a_context_is_held_once_and_dropped_with_its_last_row() -> None:
    prefix = prefix_of(*torch.randn(2, 3, HEADS, 5, SIZE), None, torch.arange(24) % 3)
    assert prefix.contexts == 3
    prefix.keep(torch.tensor([0, 3, 4]))
    assert prefix.contexts == 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_type_of_the_model_is_kept(dtype: torch.dtype) -> None:
    prefix = prefix_of(*torch.randn(2, 3, HEADS, 5, SIZE, dtype=dtype), None, torch.arange(6) % 3)
    own = torch.randn(6, HEADS, 1, SIZE, dtype=dtype)
    assert prefix.attend(0, torch.randn(6, HEADS, GROUP, SIZE, dtype=dtype), own, own).dtype == dtype
