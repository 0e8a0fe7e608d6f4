"""The cache written in place has the content of transformers' own."""

import random

import pytest
import torch
from transformers import MistralConfig, Qwen2Config
from transformers.cache_utils import DynamicCache

from tasks.model.kv_cache import CHUNK, growing_cache

SMALL = {"num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 2}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("config", [Qwen2Config(**SMALL), MistralConfig(**SMALL, sliding_window=7)])
def test_updates_and_selections_give_what_transformers_gives(seed: int, config: object) -> None:
    rng, draws = random.Random(seed), torch.Generator().manual_seed(seed)
    ours, theirs = growing_cache(config), DynamicCache(config=config)
    rows = 3
    for step in range(2 * CHUNK + 5):
        length = rng.randint(1, 9) if step == 0 else 1
        for layer in range(2):
            states = torch.randn(2, rows, 2, length, 4, generator=draws)
            for a, b in zip(ours.update(*states, layer), theirs.update(*states, layer), strict=True):
                assert torch.equal(a, b)
        assert ours.get_seq_length() == theirs.get_seq_length()
        assert ours.get_mask_sizes(1, 0) == theirs.get_mask_sizes(1, 0)
        if rng.random() < 0.1:
            kept = torch.tensor(rng.choices(range(rows), k=rng.randint(1, 5)))
            rows = len(kept)
            ours.batch_select_indices(kept)
            theirs.batch_select_indices(kept)


def test_at_most_one_chunk_is_reserved() -> None:
    cache = growing_cache(Qwen2Config(**SMALL))
    moved = set()
    for step in range(5 * CHUNK):
        keys, _ = cache.update(torch.ones(2, 2, 1, 4), torch.ones(2, 2, 1, 4), 0)
        moved.add(keys.data_ptr())
        assert keys.untyped_storage().nbytes() <= 2 * 2 * 4 * 4 * (step + 1 + CHUNK)
    assert len(moved) <= 6
