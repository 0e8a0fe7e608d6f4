"""Limits of micro-batches: constants on a CPU, on a card a function of its memory and of the model."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import Qwen2Config

from tasks.model.cpu.limits import LOGITS_COPIES, WEIGHTS_BYTES, Limits
from tasks.model.cuda import limits
from tasks.model.cuda.limits import CardLimits
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring import scorer
from tasks.model.scoring.scorer import Scorer, scorer_for, with_constant_prompts
from tests.support.policies import MakePolicy

GIB = 2**30
H100, H200 = 79 * GIB, 139 * GIB


def qwen(hidden: int, inner: int, layers: int, heads: int, kv: int, vocabulary: int = 151_936) -> Qwen2Config:
    return Qwen2Config(
        vocab_size=vocabulary, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=kv,
    )  # fmt: skip


SMALL = qwen(896, 4864, 24, 14, 2)  # Qwen2.5-0.5B, 0.99 GB in bfloat16
LARGE = qwen(3584, 18_944, 28, 28, 4, 152_064)  # Qwen2.5-7B, 15.2 GB


@pytest.mark.parametrize(
    ("config", "memory", "model", "checkpointing", "tokens"),
    [
        (SMALL, H100, 10**9, False, 16_384),
        (SMALL, 24 * GIB, 10**9, False, 8 * 1024),
        (SMALL, H100, 10**9, True, 16_384),
        (LARGE, H100, 15 * 10**9, False, 5 * 1024),
        (LARGE, H200, 15 * 10**9, False, 10 * 1024),
        (LARGE, H100, 15 * 10**9, True, 16_384),
    ],
)
def test_tokens_by_the_formula(config: Any, memory: int, model: int, checkpointing: bool, tokens: int) -> None:
    assert CardLimits(memory).tokens(config, 2, model, checkpointing) == tokens
    assert Limits().tokens(config, 2, model, checkpointing) == 2048


@given(st.integers(1, 200), st.integers(0, 100), st.sampled_from([2, 4]), st.booleans())
def test_what_is_held_at_once_fits_on_the_card(memory: int, model: int, itemsize: int, checkpointing: bool) -> None:
    """Or the micro-batch is the smallest; more memory never gives fewer tokens."""
    card, large = CardLimits(memory * GIB), CardLimits(200 * GIB)
    fits = [each.tokens(SMALL, itemsize, model * GIB, checkpointing) for each in (card, large)]
    assert fits[0] <= fits[1]
    assert fits[0] % limits.STEP == 0
    if fits[0] > limits.STEP:
        assert fits[0] * itemsize * 896 * 24 + model * GIB < memory * GIB
    logits = card.logits(SMALL) * LOGITS_COPIES * 4 * SMALL.vocab_size
    assert min(memory * GIB // 10, GIB) < logits <= min(memory * GIB // limits.LOGITS_SHARE, limits.LOGITS_BYTES)
    assert card.attention_pairs(SMALL, itemsize) * 7 * itemsize < memory * GIB // 16
    assert Limits().attention_pairs(SMALL, itemsize) * 14 * 24 * itemsize <= WEIGHTS_BYTES


def test_auto_is_a_number_by_the_device_and_a_number_is_itself(
    policy: Policy, samples: list[Sample], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [scorer_for(policy, samples, 1.0, tokens).tokens for tokens in ("auto", 300)] == [2048, 300]
    monkeypatch.setattr(scorer, "for_device", lambda *_, **_kinds: lambda _device: CardLimits(4 * GIB))
    assert scorer_for(policy, samples, 1.0, 300).tokens == 300
    on_card = scorer_for(policy, samples, 1.0, "auto")
    assert on_card.tokens == limits.MOST_TOKENS
    assert on_card.limits == CardLimits(4 * GIB)


def test_a_plan_is_by_the_cards_memory(policy: Policy, samples: list[Sample]) -> None:
    """Packed rows get smaller where the mask does not fit."""
    on_cpu = Scorer(policy.model, 0, 1.0)
    sizes = [len(replace(on_cpu, limits=CardLimits(memory)).batches(samples)) for memory in (GIB, 2**21, 2**18)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_completions_after_constant_prompts_are_bounded_by_their_attention_weights(
    make_policy: MakePolicy, samples: list[Sample]
) -> None:
    usual = scorer_for(make_policy(), samples, 1.0)
    assert with_constant_prompts(usual, samples).tokens == usual.tokens
    assert with_constant_prompts(replace(usual, limits=CardLimits(GIB)), samples).tokens == usual.tokens
    assert with_constant_prompts(replace(usual, limits=CardLimits(2**20)), samples).tokens == limits.STEP
    assert CardLimits(H100).completion_tokens(SMALL, 2, 768, 2**20) == 13 * 1024


def test_a_batch_on_a_card_is_as_large_as_its_memory_allows(policy: Policy) -> None:
    """2 layers of 2 heads of 8 numbers: 256 bytes a token in float32, and 16 for each of 300 logits; a prefilled token
    of 32 hidden and 48 inner numbers has 1,344 bytes."""
    weights = sum(weight.nbytes for weight in policy.model.parameters())
    row, prefilled = 100 * 256 + 16 * 300, 200 * 1344
    assert CardLimits(weights + 4 * 7 * row).rows(policy.model, 1, 99) == 7
    assert CardLimits(weights + 4 * 3 * prefilled).rows(policy.model, 200, 1) == 3
    assert CardLimits(1).rows(policy.model, 60, 40) == 1
    assert CardLimits(2**40).rows(policy.model, 60, 40) == limits.ROWS
