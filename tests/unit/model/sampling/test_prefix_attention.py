"""Attention to shared contexts equals attention to a copy per row."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from tasks.model.sampling.prefix_attention import SharedPrefix

HEADS, GROUP, SIZE = 2, 3, 4  # key-value heads, queries of each, numbers in each


@given(
    owner=st.lists(st.integers(0, 3), min_size=1, max_size=12),
    padding=st.lists(st.integers(0, 4), min_size=4, max_size=4),
    drops=st.lists(st.integers(0, 2**12), max_size=3),
    seed=st.integers(0, 100),
)
@settings(max_examples=60, deadline=None)
def test_rows_attend_as_to_copies_of_their_contexts(
    owner: list[int], padding: list[int], drops: list[int], seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    width, own = 5, 2
    contexts = torch.randn(2, 4, HEADS, width, SIZE, generator=random)
    hidden = torch.arange(width) < torch.tensor(padding)[:, None]
    cache = SimpleNamespace(layers=[SimpleNamespace(keys=contexts[0], values=contexts[1])])
    rows = torch.tensor(owner)
    prefix = SharedPrefix(cache, hidden if hidden.any() else None, rows)
    for drop in [2**12 - 1, *drops]:
        kept = torch.tensor([i for i in range(len(rows)) if drop >> i & 1] or [0])
        prefix.keep(kept)
        rows = rows[kept]
        queries = torch.randn(len(rows), HEADS, GROUP, SIZE, generator=random)
        keys, values = torch.randn(2, len(rows), HEADS, own, SIZE, generator=random)
        found = prefix.attend(0, queries, keys, values)
        seen = torch.cat([~hidden[rows], torch.ones(len(rows), own, dtype=torch.bool)], 1)
        expected = scaled_dot_product_attention(
            queries,
            torch.cat([contexts[0][rows], keys], 2),
            torch.cat([contexts[1][rows], values], 2),
            attn_mask=seen[:, None, None],
            scale=1.0,
        )
        assert torch.allclose(found, expected, atol=1e-5)


def test_a_context_is_held_once_and_dropped_with_its_last_row() -> None:
    keys, values = torch.randn(2, 3, HEADS, 5, SIZE)
    prefix = SharedPrefix(
        SimpleNamespace(layers=[SimpleNamespace(keys=keys, values=values)]), None, torch.arange(24) % 3
    )
    assert prefix.contexts == 3
    prefix.keep(torch.tensor([0, 3, 4]))
    assert prefix.contexts == 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_type_of_the_model_is_kept(dtype: torch.dtype) -> None:
    keys, values = torch.randn(2, 3, HEADS, 5, SIZE, dtype=dtype)
    prefix = SharedPrefix(
        SimpleNamespace(layers=[SimpleNamespace(keys=keys, values=values)]), None, torch.arange(6) % 3
    )
    own = torch.randn(6, HEADS, 1, SIZE, dtype=dtype)
    assert prefix.attend(0, torch.randn(6, HEADS, GROUP, SIZE, dtype=dtype), own, own).dtype == dtype
