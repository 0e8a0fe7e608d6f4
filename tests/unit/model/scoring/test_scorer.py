"""Every layout gives what padded rows give, in value and gradient; the scorer takes the cheapest that the model can."""

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
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring import scorer as scorer_module
from tasks.model.scoring.micro_batches import PADDING, START, TREE_TOKENS, Layout, MicroBatch, packed, tokens_of
from tasks.model.scoring.scorer import LAYOUTS, Scorer, scorer_of

MakePolicy = Callable[..., Policy]
MakeSamples = Callable[..., list[Sample]]
Key = tuple[str, int]

ALL: list[Layout] = [*LAYOUTS, "rows"]


def scores_and_gradient(
    policy: Policy, samples: list[Sample], layout: Layout, temperature: float = 0.7, tokens: int = 2048
) -> tuple[dict[Key, torch.Tensor], torch.Tensor]:
    """Log-probabilities and entropies [2, T] of each sample, and the gradient of a weighted sum of both."""
    scorer = Scorer(policy.model, policy.tokenizer.pad_token_id, temperature, [layout], tokens)
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
    return found, torch.cat([p.grad.flatten() for p in policy.model.parameters() if p.grad is not None])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["qwen2", "llama", "gpt2"])
def test_a_layout_equals_padded_rows_in_value_and_gradient(
    kind: str, layout: Layout, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples = make_policy(kind), make_samples(problems=5, group=4)
    laid, gradient = scores_and_gradient(policy, samples, layout)
    rows, row_gradient = scores_and_gradient(policy, samples, "rows")
    assert laid.keys() == rows.keys() == {(s.problem_id, s.member) for s in samples}
    for key in rows:
        torch.testing.assert_close(laid[key], rows[key], atol=1e-5, rtol=0)
    assert (gradient - row_gradient).norm() <= 1e-5 * row_gradient.norm()


@pytest.mark.parametrize("layout", ALL)
def test_each_token_is_scored_by_the_logits_before_it(
    layout: Layout, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    """log p of ids[1:] from logits[:-1], kept from prompt_len - 1."""
    policy, samples = make_policy(), make_samples()
    scores, _ = scores_and_gradient(policy, samples, layout)
    for sample in samples:
        ids = torch.tensor([[*sample.prompt, *sample.completion]])
        logprobs = (policy.model(input_ids=ids).logits[0].detach() / 0.7).log_softmax(-1)[:-1]
        expected = logprobs.gather(1, ids[0, 1:, None])[len(sample.prompt) - 1 :, 0]
        torch.testing.assert_close(scores[sample.problem_id, sample.member][0], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("limit", [1, 20, 60])
@pytest.mark.parametrize("layout", ALL)
def test_the_token_budget_changes_nothing(
    layout: Layout, limit: int, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples = make_policy(), make_samples()
    _, whole = scores_and_gradient(policy, samples, layout)
    _, cut = scores_and_gradient(policy, samples, layout, tokens=limit)
    assert (cut - whole).norm() <= 1e-5 * whole.norm()


@pytest.mark.parametrize("layout", ALL)
def test_logits_made_a_few_at_a_time_change_nothing(
    layout: Layout, make_policy: MakePolicy, make_samples: MakeSamples, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, samples = make_policy(), make_samples()
    scores, gradient = scores_and_gradient(policy, samples, layout)
    monkeypatch.setattr(scorer_module, "LOGITS_BYTES", 7 * 300 * scorer_module.COPIES * 4)  # seven at a time
    few, few_gradient = scores_and_gradient(policy, samples, layout)
    for key, row in scores.items():
        torch.testing.assert_close(few[key], row, atol=1e-5, rtol=0)
    assert (few_gradient - gradient).norm() <= 1e-5 * gradient.norm()


@pytest.mark.parametrize("layout", ALL)
def test_no_threads_race_for_a_gradient(
    layout: Layout, make_policy: MakePolicy, make_samples: MakeSamples, request: pytest.FixtureRequest
) -> None:
    """Bit for bit what torch computes where it is told to let no two threads add to one number."""
    policy, samples = make_policy(), make_samples(problems=8, group=30)
    request.addfinalizer(lambda: torch.use_deterministic_algorithms(False))
    request.addfinalizer(partial(torch.set_num_threads, torch.get_num_threads()))
    torch.set_num_threads(2)
    _, free = scores_and_gradient(policy, samples, layout)
    torch.use_deterministic_algorithms(True)
    _, told = scores_and_gradient(policy, samples, layout)
    assert torch.equal(free, told)


def group(prompt: int, lengths: Sequence[int], name: str = "p") -> list[Sample]:
    place = int(name[1:] or 0)
    return [Sample(name, m, (7 + place,) * prompt, (8,) * length, (), 1.0) for m, length in enumerate(lengths)]


@given(
    st.lists(st.tuples(st.integers(1, 40), st.lists(st.integers(1, 30), min_size=1, max_size=9)), max_size=12),
    st.integers(1, 300),
    st.sampled_from(ALL),
)
def test_micro_batches_hold_every_sample_once_within_the_budget_in_any_order(
    groups: list[tuple[int, list[int]]], tokens: int, layout: Layout
) -> None:
    samples = [s for number, (prompt, lengths) in enumerate(groups) for s in group(prompt, lengths, f"p{number}")]
    batches = packed(layout, samples, tokens)
    places = [(s.problem_id, s.member) for batch in batches for s in batch.samples]
    assert sorted(places) == sorted((s.problem_id, s.member) for s in samples)
    for batch in batches:
        assert batch.tokens <= tokens or len(batch.samples) == 1
        padding = batch.tokens - sum(tokens_of(layout, [g]) for g in batch.groups)
        assert padding <= max(PADDING * batch.tokens, START)
        assert len({s.prompt for g in batch.groups for s in g}) <= len(batch.groups)
        assert all(len({s.prompt for s in g}) == 1 for g in batch.groups)
        assert layout != "trees" or all(tokens_of(layout, [g]) <= TREE_TOKENS or len(g) == 1 for g in batch.groups)
    shuffled = random.Random(0).sample(samples, len(samples))
    assert packed(layout, shuffled, tokens) == batches


def test_one_row_is_taken_for_all_else_trees_for_unlike_lengths_and_prefixes_for_like_ones(
    make_policy: MakePolicy,
) -> None:
    scorer = Scorer(make_policy().model, 0, 1.0)
    even, skewed = group(100, [64] * 8), group(100, [64, 4, 4, 5, 6, 4, 9, 4])
    for samples, otherwise in ((even, "prefix"), (skewed, "trees")):
        assert {batch.layout for batch in scorer.batches(samples)} == {"packed"}
        assert {b.layout for b in replace(scorer, layouts=("trees", "prefix")).batches(samples)} == {otherwise}
    assert scorer.batches([]) == []


@pytest.mark.parametrize("parts", [2, 3])
def test_so_many_parts_are_made_of_like_size_where_samples_are_enough(parts: int, make_policy: MakePolicy) -> None:
    scorer = Scorer(make_policy().model, 0, 1.0)
    samples = [s for name in ("p1", "p2", "p3", "p4", "p5", "p6") for s in group(20, [5, 9, 30, 60], name)]
    assert len(scorer.batches(samples)) == 1
    sizes = [batch.tokens for batch in scorer.batches(samples, parts)]
    assert len(sizes) == parts
    assert max(sizes) <= 1.5 * min(sizes)
    assert scorer.batches([], parts) == []
    assert len(scorer.batches(samples[:1], parts)) == 1


def test_packed_rows_hold_no_padding_whatever_the_lengths() -> None:
    groups = [group(30, [5, 60], "p1"), group(3, [1, 1], "p2"), group(40, [64] * 8, "p3")]
    (batch,) = packed("packed", [s for g in groups for s in g], 2048)
    assert batch.tokens == sum(len(g[0].prompt) + sum(len(s.completion) - 1 for s in g) for g in groups)


def test_attention_weights_that_would_not_fit_in_memory_are_not_kept(
    make_policy: MakePolicy, make_samples: MakeSamples, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer, samples = Scorer(make_policy().model, 0, 1.0), make_samples()
    assert {batch.layout for batch in scorer.batches(samples)} == {"packed"}
    monkeypatch.setattr(scorer_module, "WEIGHTS_BYTES", 1000)
    assert {batch.layout for batch in scorer.batches(samples)} <= {"trees", "prefix"}


def layouts_of(policy: Policy, samples: list[Sample]) -> list[Layout]:
    return list(scorer_of(policy, samples, 1.0).layouts)


Kwargs = dict[str, Any]


def before_forward(policy: Policy, change: Callable[[Kwargs], Kwargs]) -> None:
    """Let the model see changed arguments."""
    policy.model.register_forward_pre_hook(lambda _module, _args, kwargs: ((), change(kwargs)), with_kwargs=True)


def forget_the_places(kwargs: Kwargs) -> Kwargs:
    return {name: value for name, value in kwargs.items() if name != "packed_places"}


def forget_four_dimensions(kwargs: Kwargs) -> Kwargs:
    mask = kwargs.get("attention_mask")
    if mask is None or mask.dim() == 2:
        return kwargs
    return kwargs | {"attention_mask": torch.ones_like(mask[:, 0, 0]).long()}


def refuse_four_dimensions(kwargs: Kwargs) -> Kwargs:
    if "attention_mask" in kwargs and kwargs["attention_mask"].dim() != 2:
        raise ValueError("attention_mask must be [batch, sequence]")
    return kwargs


def forget_the_cache(kwargs: Kwargs) -> Kwargs:
    if "attention_mask" not in kwargs:
        return kwargs
    width = kwargs["input_ids"].shape[1]
    return kwargs | {"past_key_values": None, "attention_mask": kwargs["attention_mask"][..., -width:]}


def test_a_model_computes_all_layouts(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    for kind in ("qwen2", "llama", "gpt2"):
        assert layouts_of(make_policy(kind), make_samples()) == list(LAYOUTS)


@pytest.mark.parametrize(
    ("change", "left", "reason"),
    [
        (forget_the_places, ["trees", "prefix"], "as packed, the update may be slower: the model refuses it (its forw"),
        (forget_four_dimensions, ["packed", "prefix"], "as trees, the update may be slower: it differs by"),
        (refuse_four_dimensions, ["packed", "prefix"], "attention_mask must be [batch, sequence]"),
        (forget_the_cache, ["packed", "trees"], "as prefix, the update may be slower: it differs by"),
        (lambda given: forget_the_cache(refuse_four_dimensions(forget_the_places(given))), ["rows"], "as trees"),
    ],
)
def test_a_layout_that_the_model_gets_wrong_is_not_used_and_that_is_said(
    change: Callable[[Kwargs], Kwargs],
    left: list[Layout],
    reason: str,
    make_policy: MakePolicy,
    make_samples: MakeSamples,
    caplog: pytest.LogCaptureFixture,
) -> None:
    policy, samples = make_policy(), make_samples()
    before_forward(policy, change)
    with caplog.at_level(logging.WARNING):
        assert layouts_of(policy, samples) == left
    assert reason in caplog.text


def test_a_sliding_window_shorter_than_the_samples_gets_neither_one_row_nor_trees(
    make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples = make_policy(), make_samples()
    policy.model.config.sliding_window = max(len(s.prompt) + len(s.completion) for s in samples) - 1
    assert layouts_of(policy, samples) == ["prefix"]
    short = [replace(s, completion=s.completion[:1], prompt=s.prompt[:3]) for s in samples]
    assert layouts_of(policy, short) == list(LAYOUTS)


def test_a_model_that_does_more_than_its_head_keeps_all_logits_and_that_is_said(
    make_policy: MakePolicy,
    make_samples: MakeSamples,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    plain, samples = make_policy("llama"), make_samples()
    monkeypatch.setattr(scorer_module, "LOGITS_BYTES", 1)
    assert scorer_of(plain, samples, 1.0).by_head
    config = GraniteConfig(
        vocab_size=300, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
        intermediate_size=32, logits_scaling=3.0, initializer_range=0.2,
    )  # fmt: skip
    scaled = replace(plain, model=GraniteForCausalLM(config).eval())
    with caplog.at_level(logging.WARNING):
        scorer = scorer_of(scaled, samples, 1.0)
    assert not scorer.by_head
    assert "all logits of a micro-batch are held at once, which takes memory: it differs by" in caplog.text
    batch = MicroBatch("rows", [[s] for s in samples])
    with torch.no_grad():
        logits = scaled.model(input_ids=torch.tensor([[*samples[0].prompt, *samples[0].completion]])).logits[0]
        found = scorer.score(batch).logprobs[0, 0]
    expected = logits.log_softmax(-1)[len(samples[0].prompt) - 1, samples[0].completion[0]]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_a_model_that_lets_padding_count_is_not_trained(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    policy, samples = make_policy(), make_samples()
    before_forward(policy, lambda kwargs: kwargs | {"attention_mask": torch.ones_like(kwargs["input_ids"])})
    with pytest.raises(GraftError, match=r"policy\.base: this model cannot be trained, .* padding .*differ"):
        scorer_of(policy, samples, 1.0)
