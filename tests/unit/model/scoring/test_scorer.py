"""Packed rows give what padded rows give, in value and gradient; a model that computes them wrong gets padded rows."""

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import GraniteConfig, GraniteForCausalLM

from tasks.errors import GraftError
from tasks.model.cpu import limits
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring import micro_batches, packed_attention
from tasks.model.scoring.micro_batches import (
    MicroBatch,
    RowLayout,
    count_attention_pairs,
    count_tokens,
    make_micro_batches,
)
from tasks.model.scoring.scorer import Scorer, scorer_for
from tests.support.devices import choosing
from tests.support.plain_scores import unpadded_logprobs
from tests.support.policies import MakePolicy, MakeSamples
from tests.support.updates import DENSE_OR_FUSED, TRAINING_LAYOUTS, gradient_of

Key = tuple[str, int]


def scores_and_gradient(
    policy: Policy, samples: list[Sample], layout: RowLayout, temperature: float = 0.7, tokens: int = 2048
) -> tuple[dict[Key, torch.Tensor], torch.Tensor]:
    """Log-probabilities and entropies [2, T] of each sample, and the gradient of a weighted sum of both."""
    scorer = Scorer(policy.model, policy.tokenizer.pad_token_id, temperature, layout, tokens)
    policy.model.zero_grad()
    found = {}
    for batch in scorer.batches(samples):
        assert batch.layout == layout
        scored = scorer.score(batch)
        assert not scored.logprobs[~scored.mask].any()
        assert not scored.entropies[~scored.mask].any()
        weights = scored.logprobs.new_tensor([s.advantage for s in batch.samples])
        ((scored.logprobs + 0.3 * scored.entropies).sum(1) * weights).sum().backward()
        both = torch.stack([scored.logprobs, scored.entropies], dim=1).detach()
        for row, kept, sample in zip(both, scored.mask, batch.samples, strict=True):
            found[sample.problem_id, sample.member] = row[:, kept]
    return found, gradient_of(policy)


@pytest.mark.parametrize("device_kind", DENSE_OR_FUSED)
@pytest.mark.parametrize("kind", ["qwen2", "llama", "gpt2"])
def test_packed_rows_equal_padded_rows_in_value_and_gradient(
    kind: str, device_kind: str, make_policy: MakePolicy, make_samples: MakeSamples, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_attention, "for_device", choosing(device_kind))
    policy, samples = make_policy(kind), make_samples(problems=5, group=4)
    assert scorer_for(policy, samples, 1.0).layout == "packed"
    laid, gradient = scores_and_gradient(policy, samples, "packed")
    rows, row_gradient = scores_and_gradient(policy, samples, "rows")
    assert laid.keys() == rows.keys() == {(s.problem_id, s.member) for s in samples}
    for key in rows:
        torch.testing.assert_close(laid[key], rows[key], atol=1e-5, rtol=0)
    assert (gradient - row_gradient).norm() <= 1e-5 * row_gradient.norm()


@pytest.mark.parametrize("layout", TRAINING_LAYOUTS)
def test_each_token_is_scored_by_the_logits_before_it(layout: RowLayout, policy: Policy, samples: list[Sample]) -> None:

    scores, _ = scores_and_gradient(policy, samples, layout)
    for sample in samples:
        expected = unpadded_logprobs(policy.model, sample, 0.7).detach()
        torch.testing.assert_close(scores[sample.problem_id, sample.member][0], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("layout", TRAINING_LAYOUTS)
def test_the_token_budget_and_chunks_of_logits_change_nothing(
    layout: RowLayout, policy: Policy, samples: list[Sample], monkeypatch: pytest.MonkeyPatch
) -> None:
    scores, gradient = scores_and_gradient(policy, samples, layout)
    for limit in (1, 20, 60):
        _, cut = scores_and_gradient(policy, samples, layout, tokens=limit)
        assert (cut - gradient).norm() <= 1e-5 * gradient.norm()
    monkeypatch.setattr(limits, "LOGITS_BYTES", 7 * 300 * limits.LOGITS_COPIES * 4)  # seven at a time
    few, few_gradient = scores_and_gradient(policy, samples, layout)
    for key, row in scores.items():
        torch.testing.assert_close(few[key], row, atol=1e-5, rtol=0)
    assert (few_gradient - gradient).norm() <= 1e-5 * gradient.norm()


@pytest.mark.parametrize("layout", TRAINING_LAYOUTS)
def test_gradients_are_deterministic_with_two_threads(
    layout: RowLayout, policy: Policy, make_samples: MakeSamples, request: pytest.FixtureRequest
) -> None:
    """Bit for bit what torch computes with deterministic algorithms."""
    samples = make_samples(problems=8, group=30)
    request.addfinalizer(lambda: torch.use_deterministic_algorithms(False))
    request.addfinalizer(partial(torch.set_num_threads, torch.get_num_threads()))
    torch.set_num_threads(2)
    _, free = scores_and_gradient(policy, samples, layout)
    torch.use_deterministic_algorithms(True)
    _, deterministic = scores_and_gradient(policy, samples, layout)
    assert torch.equal(free, deterministic)


def group(prompt: int, lengths: Sequence[int], name: str = "p") -> list[Sample]:
    place = int(name[1:] or 0)
    return [Sample(name, m, (7 + place,) * prompt, (8,) * length, (), 1.0) for m, length in enumerate(lengths)]


@given(
    st.lists(st.tuples(st.integers(1, 40), st.lists(st.integers(1, 30), min_size=1, max_size=9)), max_size=12),
    st.integers(1, 300),
    st.sampled_from([None, 100, 1000]),
    st.sampled_from(TRAINING_LAYOUTS),
)
def test_micro_batches_hold_every_sample_once_within_the_budget_in_any_order(
    groups: list[tuple[int, list[int]]], tokens: int, pairs: int | None, layout: RowLayout
) -> None:
    samples = [s for number, (prompt, lengths) in enumerate(groups) for s in group(prompt, lengths, f"p{number}")]
    batches = make_micro_batches(layout, samples, tokens, pairs)
    places = [(s.problem_id, s.member) for batch in batches for s in batch.samples]
    assert sorted(places) == sorted((s.problem_id, s.member) for s in samples)
    for batch in batches:
        assert batch.tokens <= tokens or len(batch.samples) == 1
        if pairs and layout == "packed":
            assert count_attention_pairs(batch.groups) <= pairs or len(batch.samples) == 1
        padding = batch.tokens - sum(count_tokens(layout, [g]) for g in batch.groups)
        assert padding <= max(micro_batches.PADDING_SHARE * batch.tokens, micro_batches.MIN_PADDING)
        assert len({s.prompt for g in batch.groups for s in g}) <= len(batch.groups)
        assert all(len({s.prompt for s in g}) == 1 for g in batch.groups)
    shuffled = random.Random(0).sample(samples, len(samples))
    assert make_micro_batches(layout, shuffled, tokens, pairs) == batches


@pytest.mark.parametrize("parts", [2, 3])
def test_the_requested_parts_have_similar_sizes(parts: int, make_policy: MakePolicy) -> None:
    scorer = Scorer(make_policy().model, 0, 1.0)
    samples = [s for name in ("p1", "p2", "p3", "p4", "p5", "p6") for s in group(20, [5, 9, 30, 60], name)]
    assert len(scorer.batches(samples)) == 1
    sizes = [batch.tokens for batch in scorer.batches(samples, parts)]
    assert len(sizes) == parts
    assert max(sizes) <= 1.5 * min(sizes)
    assert scorer.batches([]) == scorer.batches([], parts) == []
    assert len(scorer.batches(samples[:1], parts)) == 1


def test_packed_rows_hold_no_padding_and_get_smaller_or_are_not_used_where_attention_does_not_fit_in_memory(
    policy: Policy, samples: list[Sample], monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = [group(30, [5, 60], "p1"), group(3, [1, 1], "p2"), group(40, [64] * 8, "p3")]
    (batch,) = make_micro_batches("packed", [s for g in groups for s in g], 2048)
    assert batch.tokens == sum(len(g[0].prompt) + sum(len(s.completion) - 1 for s in g) for g in groups)
    scorer = Scorer(policy.model, 0, 1.0)
    whole = scorer.batches(samples)
    assert {batch.layout for batch in whole} == {"packed"}
    config = policy.model.config
    weights = 4 * config.num_attention_heads * config.num_hidden_layers
    most = max(count_attention_pairs(batch.groups) for batch in whole)
    monkeypatch.setattr(limits, "WEIGHTS_BYTES", weights * (most - 1))
    smaller = scorer.batches(samples)
    assert {batch.layout for batch in smaller} == {"packed"}
    assert len(smaller) > len(whole)
    monkeypatch.setattr(limits, "WEIGHTS_BYTES", 1000)
    assert {batch.layout for batch in scorer.batches(samples)} == {"rows"}


Kwargs = dict[str, Any]


def before_forward(policy: Policy, change: Callable[[Kwargs], Kwargs]) -> None:
    """Let the model see changed arguments."""
    policy.model.register_forward_pre_hook(lambda _module, _args, kwargs: ((), change(kwargs)), with_kwargs=True)


@pytest.mark.parametrize(
    ("lost", "reason"), [("packed_index", "the model refuses it (its forw"), ("position_ids", "it differs by")]
)
def test_a_model_that_computes_packed_rows_wrongly_gets_padded_rows_and_a_warning(
    lost: str, reason: str, policy: Policy, samples: list[Sample], caplog: pytest.LogCaptureFixture
) -> None:
    def change(kwargs: Kwargs) -> Kwargs:
        packed = "packed_index" in kwargs
        return {name: value for name, value in kwargs.items() if not packed or name != lost}

    before_forward(policy, change)
    with caplog.at_level(logging.WARNING):
        assert scorer_for(policy, samples, 1.0).layout == "rows"
    assert f"as packed rows, the update may be slower: {reason}" in caplog.text


def test_a_sliding_window_shorter_than_the_samples_gets_padded_rows(policy: Policy, samples: list[Sample]) -> None:
    policy.model.config.sliding_window = max(len(s.prompt) + len(s.completion) for s in samples) - 1
    assert scorer_for(policy, samples, 1.0).layout == "rows"
    short = [replace(s, completion=s.completion[:1], prompt=s.prompt[:3]) for s in samples]
    assert scorer_for(policy, short, 1.0).layout == "packed"


def test_a_model_that_scales_its_logits_computes_all_at_once_with_a_warning(
    make_policy: MakePolicy, samples: list[Sample], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plain = make_policy("llama")
    monkeypatch.setattr(limits, "LOGITS_BYTES", 1)
    assert scorer_for(plain, samples, 1.0).chunked_head
    config = GraniteConfig(
        vocab_size=300, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
        intermediate_size=32, logits_scaling=3.0, initializer_range=0.2,
    )  # fmt: skip
    scaled = replace(plain, model=GraniteForCausalLM(config).eval())
    with caplog.at_level(logging.WARNING):
        scorer = scorer_for(scaled, samples, 1.0)
    assert not scorer.chunked_head
    assert "all logits of a micro-batch are held at once, which takes memory: it differs by" in caplog.text
    batch = MicroBatch("rows", [[s] for s in samples])
    with torch.no_grad():
        found, expected = scorer.score(batch).logprobs[0], unpadded_logprobs(scaled.model, samples[0], 1.0)
    torch.testing.assert_close(found[0], expected[0], atol=1e-5, rtol=0)


def test_a_model_that_attends_to_padding_is_refused(policy: Policy, samples: list[Sample]) -> None:
    before_forward(policy, lambda kwargs: kwargs | {"attention_mask": torch.ones_like(kwargs["input_ids"])})
    with pytest.raises(GraftError, match=r"policy\.base: this model cannot be trained, .* padding .*differ"):
        scorer_for(policy, samples, 1.0)
